//! Firecracker's configuration file for a boot, because its command line has no options for it.
//!
//! Its objects are those of Firecracker's API: `docs/getting-started.md` and `swagger/firecracker.yaml`.

use serde_json::{Value, json};

use super::args::VmmDeviceName;
use super::template::TemplateValues;

/// The configuration, with those of `devices` that Firecracker has.
pub(super) fn firecracker(places: TemplateValues<'_>, devices: &[VmmDeviceName]) -> Value {
    let mut config = json!({
        "boot-source": {
            "kernel_image_path": places.image,
            "boot_args": places.cmdline,
        },
        "machine-config": {
            "vcpu_count": places.cpus,
            "mem_size_mib": places.memory,
        },
        "drives": [],
    });
    if devices.contains(&VmmDeviceName::Blk) {
        config["drives"] = json!([{
            "drive_id": "disk",
            "path_on_host": places.disk,
            "is_root_device": false,
            "is_read_only": false,
        }]);
    }
    if devices.contains(&VmmDeviceName::Rng) {
        config["entropy"] = json!({});
    }
    config
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_configuration_has_the_devices_that_are_asked_for() {
        let places = TemplateValues {
            image: Path::new("/i"),
            bzimage: Path::new("/b"),
            config: Path::new("/c"),
            cmdline: "ops=1 \"x\"",
            disk: Path::new("/d"),
            cpus: 2,
            memory: 64,
            accel: "kvm",
        };
        let config = firecracker(
            places,
            &[VmmDeviceName::Rng, VmmDeviceName::Blk, VmmDeviceName::Net],
        );
        assert_eq!(config["boot-source"]["kernel_image_path"], "/i");
        assert_eq!(config["boot-source"]["boot_args"], "ops=1 \"x\"");
        assert_eq!(config["machine-config"]["mem_size_mib"], 64);
        assert_eq!(config["drives"][0]["path_on_host"], "/d");
        assert_eq!(config["entropy"], json!({}));
        let none = firecracker(places, &[]);
        assert_eq!((&none["drives"], none.get("entropy")), (&json!([]), None));
    }
}
