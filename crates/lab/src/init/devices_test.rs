use std::os::unix::fs::symlink;

use super::*;

const ADDRESS: &str = "0000:00:03.0";

fn edu(driver: Option<&str>) -> JobDevice {
    JobDevice {
        name: "edu".to_owned(),
        bus: "pci".to_owned(),
        address: ADDRESS.to_owned(),
        driver: driver.map(str::to_owned),
        interface: None,
    }
}

#[test]
fn a_device_that_does_not_get_its_driver_is_an_error_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let bus = folder.path();
    let device = bus.join("devices").join(ADDRESS);
    let reason = || {
        let error = bind(bus, &edu(Some("vfio-pci"))).unwrap_err().to_string();
        let begin = "cannot bind edu (0000:00:03.0) to vfio-pci: ";
        error.strip_prefix(begin).unwrap().to_owned()
    };
    assert!(reason().ends_with("driver_override: No such file or directory (os error 2)"));
    fs::create_dir_all(&device).unwrap();
    assert_eq!(reason(), "L1's kernel has no such driver");
    fs::create_dir_all(bus.join("drivers/vfio-pci")).unwrap();
    assert!(reason().starts_with("the device is in no IOMMU group"));
    fs::create_dir(device.join("iommu_group")).unwrap();
    assert!(reason().starts_with("the driver refused it"));
    symlink("../../drivers/vfio-pci", device.join("driver")).unwrap();
    bind(bus, &edu(Some("vfio-pci"))).unwrap();
    let text = |name: &str| fs::read_to_string(bus.join(name)).unwrap();
    assert_eq!(text("drivers_probe"), ADDRESS);
    assert_eq!(
        text(&format!("devices/{ADDRESS}/driver_override")),
        "vfio-pci"
    );
}

#[test]
fn a_driver_of_the_kernels_own_loses_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("devices").join(ADDRESS).join("driver");
    fs::create_dir_all(&driver).unwrap();
    fs::write(driver.join("unbind"), "").unwrap();
    bind(folder.path(), &edu(None)).unwrap();
    assert_eq!(fs::read_to_string(driver.join("unbind")).unwrap(), ADDRESS);
}

#[test]
fn an_interface_is_found_by_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let (network, address) = (folder.path().join("net"), "0000:00:05.0");
    let devices = folder.path().join("devices");
    fs::create_dir_all(devices.join("virtual/lo")).unwrap();
    fs::create_dir_all(devices.join(address).join("virtio1/net/eth1")).unwrap();
    fs::create_dir(&network).unwrap();
    symlink("../devices/virtual/lo", network.join("lo")).unwrap();
    let error = interface(&network, address).unwrap_err().to_string();
    assert!(error.starts_with("L1 has no network interface at 0000:00:05.0"));
    symlink(
        "../devices/0000:00:05.0/virtio1/net/eth1",
        network.join("eth1"),
    )
    .unwrap();
    assert_eq!(interface(&network, address).unwrap(), network.join("eth1"));
}
