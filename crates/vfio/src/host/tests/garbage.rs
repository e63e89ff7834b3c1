//! Files with any contents are read without a panic.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::Bus;
use super::fake::{Fake, NIC, RTC};

/// Each is a file, a folder, a link that leads nowhere, or missing.
const FILES: [&str; 13] = [
    "vendor",
    "class",
    "resource",
    "reset_method",
    "modalias",
    "driver",
    "iommu_group",
    "vfio-dev",
    "of_node/compatible",
    "of_node/reg",
    "of_node/device_type",
    "#size-cells",
    "subsystem",
];

#[derive(Clone, Debug)]
enum Kind {
    Missing,
    Folder,
    Link(String),
    File(Vec<u8>),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Missing),
        Just(Kind::Folder),
        "[0-9a-f./:]{1,12}".prop_map(Kind::Link),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Kind::File),
        "(0x[0-9a-f]{1,17}[ \n]){0,9}".prop_map(|text| Kind::File(text.into_bytes())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn garbage_is_read_without_a_panic(
        kinds in prop::collection::vec(kind(), FILES.len()),
        indexes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..99), 5),
    ) {
        let fake = Fake::new();
        for (bus, name) in [(Bus::Pci, NIC), (Bus::Amba, RTC), (Bus::Platform, "a b.0")] {
            let device = fake.path().join(format!("sys/bus/{bus}/devices/{name}"));
            for (file, kind) in FILES.iter().zip(&kinds) {
                let path = device.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match kind {
                    Kind::Missing => {}
                    Kind::Folder => fs::create_dir(path).unwrap(),
                    Kind::Link(target) => symlink(target, path).unwrap(),
                    Kind::File(bytes) => fs::write(path, bytes).unwrap(),
                }
            }
        }
        fake.write("proc/cpuinfo", &indexes[0])
            .write("proc/cmdline", &indexes[1])
            .modules("modules.dep", &String::from_utf8_lossy(&indexes[2]))
            .modules("modules.alias", &String::from_utf8_lossy(&indexes[3]))
            .modules("modules.builtin.modinfo", &String::from_utf8_lossy(&indexes[4]));
        let host = fake.host();
        let devices = host.devices();
        prop_assert_eq!(devices.len(), 3);
        for device in devices {
            let _ = device.identity.to_string();
            for obstacle in host.obstacles(&device) {
                prop_assert!(!obstacle.to_string().is_empty());
            }
        }
    }

    #[test]
    fn any_text_is_looked_up_without_a_panic(typed in "\\PC{0,40}") {
        // No lookup changes the host.
        static READY: LazyLock<Fake> = LazyLock::new(Fake::ready);
        if let Ok(device) = READY.host().find(&Bus::ALL, &typed) {
            prop_assert_eq!(device.name, NIC);
        }
    }
}
