use std::fs;

use super::super::edu::EDU;
use super::super::pl031::PL031;
use super::*;

#[test]
fn a_host_without_the_device_learns_where_there_is_one() {
    let none = Host::at("/nonexistent");
    let error = EDU.find(&none).unwrap_err().to_string();
    assert!(error.contains("1234:11e8"), "{error}");
    assert!(
        error.contains("vmbell lab -- vmbell bench 'passthrough-*'"),
        "{error}"
    );
    let error = PL031.find(&none).unwrap_err().to_string();
    assert!(
        error.contains("vmbell lab --arch aarch64 -- vmbell bench 'platform-irq-*'"),
        "{error}"
    );
}

#[test]
fn what_stands_in_the_devices_way_is_named() {
    let root = tempfile::tempdir().unwrap();
    let device = root.path().join("sys/bus/pci/devices/0000:00:03.0");
    fs::create_dir_all(&device).unwrap();
    for (file, text) in [
        ("vendor", "0x1234"),
        ("device", "0x11e8"),
        ("class", "0x00ff00"),
    ] {
        fs::write(device.join(file), text).unwrap();
    }
    let error = EDU.find(&Host::at(root.path())).unwrap_err().to_string();
    assert!(
        error.contains("0000:00:03.0 cannot be assigned: no iommu group"),
        "{error}"
    );
    fs::write(device.join("device"), "0x11e9").unwrap();
    let other = EDU.find(&Host::at(root.path()));
    assert!(
        matches!(other, Err(Unavailable::Absent { .. })),
        "{other:?}"
    );
}
