//! What is read about a device.

use super::super::Bus;
use super::super::{HostRegion, Identity, LeftOut, RegionKind, Reset};
use super::fake::{Fake, NIC, RTC};

#[test]
fn a_pci_function_has_its_numbers_and_its_place() {
    let fake = Fake::ready();
    let nic = fake.find(NIC);
    let identity = Identity::Pci {
        vendor: 0x8086,
        device: 0x10d3,
        class: 0x02_0000,
    };
    assert_eq!(nic.identity, identity);
    assert_eq!(nic.identity.to_string(), "8086:10d3 class 020000");
    assert_eq!(nic.group, Some(7));
    assert_eq!(nic.driver.as_deref(), Some("vfio-pci"));
    assert_eq!(nic.reset, Reset::Methods(vec!["flr".into(), "bus".into()]));
    assert!(nic.path.ends_with(format!("sys/bus/pci/devices/{NIC}")));
}

#[test]
fn bars_have_sizes_and_those_that_there_are_not_are_left_out() {
    let fake = Fake::ready();
    let resource = "\
0x00000000feb80000 0x00000000feb9ffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000000000000c060 0x000000000000c07f 0x0000000000040101
0x0000000000000000 0xffffffffffffffff 0x0000000000040200
0x0000000000000010 0x0000000000000001 0x0000000000040200
garbage
0x00000000feb40000 0x00000000feb7ffff 0x0000000000046200
";
    fake.write(&format!("sys/bus/pci/devices/{NIC}/resource"), resource);
    let bar = |index, kind, size| HostRegion { index, kind, size };
    assert_eq!(
        fake.find(NIC).regions,
        [
            bar(0, RegionKind::Memory, 0x20000),
            bar(2, RegionKind::Io, 0x20)
        ]
    );
}

#[test]
fn a_described_device_has_its_compatible_and_its_regions() {
    let fake = Fake::new();
    fake.rtc();
    let rtc = fake.find(RTC);
    assert_eq!(rtc.bus, Bus::Amba);
    assert_eq!(rtc.identity.to_string(), "arm,pl031");
    let region = HostRegion {
        index: 0,
        kind: RegionKind::Memory,
        size: 0x1000,
    };
    assert_eq!(rtc.regions, [region]);
    assert_eq!(rtc.node_path().as_deref(), Some("/pl031@9010000"));
    assert_eq!(rtc.left_out(), None);
}

#[test]
fn the_device_of_iommufd_is_named() {
    let fake = Fake::ready();
    fake.write(
        &format!("sys/bus/pci/devices/{NIC}/vfio-dev/vfio3/dev"),
        "511:3\n",
    );
    assert_eq!(fake.find(NIC).cdev.as_deref(), Some("vfio3"));
}

#[test]
fn a_reset_that_an_administrator_has_emptied_is_none() {
    let fake = Fake::ready();
    let method = format!("sys/bus/pci/devices/{NIC}/reset_method");
    fake.write(&method, "\n")
        .write(&format!("sys/bus/pci/devices/{NIC}/reset"), "");
    assert_eq!(fake.find(NIC).reset, Reset::Impossible);
    fake.remove(&method);
    assert_eq!(fake.find(NIC).reset, Reset::Possible, "before 5.15");
}

#[test]
fn a_platform_device_is_reset_by_the_module_of_its_compatible() {
    let fake = Fake::new();
    fake.rtc();
    assert_eq!(fake.find(RTC).reset, Reset::Unknown, "no index of modules");
    fake.modules("modules.alias", "alias pci:v00008086d* e1000e\n");
    assert_eq!(fake.find(RTC).reset, Reset::Impossible);
    fake.modules(
        "modules.builtin.modinfo",
        "a.alias=b\0vfio_rtc.alias=vfio-reset:arm,pl031\0",
    );
    assert_eq!(fake.find(RTC).reset, Reset::Module("vfio_rtc".into()));
    fake.modules("modules.alias", "alias vfio-reset:arm,pl031 vfio_pl031\n");
    assert_eq!(fake.find(RTC).reset, Reset::Module("vfio_pl031".into()));
}

#[test]
fn bridges_and_what_the_host_hangs_on_are_no_candidates() {
    let fake = Fake::new();
    for (slot, class, left_out) in [
        (0, 0x06_0000, Some(LeftOut::Bridge)),
        (1, 0x06_0400, Some(LeftOut::Bridge)),
        (2, 0x06_0100, Some(LeftOut::Bridge)),
        (3, 0x08_0600, Some(LeftOut::Infrastructure)),
        (4, 0x01_0802, None),
        (5, 0x0c_0330, None),
    ] {
        let name = format!("0000:00:{slot:02x}.0");
        fake.pci(&name, class);
        assert_eq!(fake.find(&name).left_out(), left_out, "{class:06x}");
    }
}

#[test]
fn a_platform_device_needs_a_description_of_its_registers() {
    let fake = Fake::new();
    fake.rtc();
    let speaker = "sys/bus/platform/devices/pcspkr";
    fake.write(&format!("{speaker}/modalias"), "platform:pcspkr\n");
    assert_eq!(fake.find("pcspkr").left_out(), Some(LeftOut::NotDescribed));
    fake.write(&format!("{speaker}/firmware_node/hid"), "PNP0800\n")
        .group(Bus::Platform, "pcspkr", 1);
    assert_eq!(fake.find("pcspkr").left_out(), None);
    let node = "sys/firmware/devicetree/base/pl031@9010000";
    fake.write(&format!("{node}/interrupt-controller"), "");
    assert_eq!(fake.find(RTC).left_out(), Some(LeftOut::Infrastructure));
    fake.remove(&format!("{node}/interrupt-controller"))
        .remove(&format!("{node}/reg"));
    assert_eq!(fake.find(RTC).left_out(), Some(LeftOut::NotDescribed));
}

#[test]
fn devices_are_those_of_all_buses_in_order() {
    let fake = Fake::ready();
    fake.rtc().pci("0000:00:01.0", 0x06_0400);
    let names: Vec<_> = fake.host().devices().into_iter().map(|d| d.name).collect();
    assert_eq!(names, ["0000:00:01.0", NIC, RTC]);
    assert!(Fake::new().host().devices().is_empty());
}

#[test]
fn a_group_has_its_members() {
    let fake = Fake::ready();
    fake.pci("0000:00:01.0", 0x06_0400)
        .driver(Bus::Pci, "0000:00:01.0", "pcieport")
        .group(Bus::Pci, "0000:00:01.0", 7);
    let members = fake.host().group(7).members;
    assert_eq!(members.len(), 2);
    assert!(members[0].is_bridge && members[0].leaves_the_group_viable());
    assert_eq!(members[1].driver.as_deref(), Some("vfio-pci"));
    assert!(fake.host().group(8).members.is_empty());
}
