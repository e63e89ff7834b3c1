//! What prevents an assignment: one obstacle per test.

use super::super::{Bus, LeftOut, ModuleState, Obstacle};
use super::fake::{Fake, NIC, RELEASE, RTC};

/// The NIC with a group and without a driver.
fn unbound() -> Fake {
    let fake = Fake::new();
    fake.nic().group(Bus::Pci, NIC, 7);
    fake
}

fn only(fake: &Fake, name: &str) -> Obstacle {
    let mut obstacles = fake.obstacles(name);
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    obstacles.remove(0)
}

#[test]
fn nothing_is_in_the_way_of_a_device_that_is_ready() {
    assert_eq!(Fake::ready().obstacles(NIC), []);
}

#[test]
fn a_device_of_the_hosts_driver_is_given_to_vfio() {
    let fake = unbound();
    fake.driver(Bus::Pci, NIC, "e1000e");
    let obstacle = only(&fake, NIC);
    assert!(obstacle.is_blocking());
    assert_eq!(
        obstacle.to_string(),
        "bound to the host's driver e1000e, which loses the device"
    );
}

#[test]
fn a_device_without_a_driver_is_bound() {
    let obstacle = only(&unbound(), NIC);
    assert_eq!(obstacle.to_string(), "not bound to vfio-pci");
}

#[test]
fn a_variant_of_the_driver_is_one_too() {
    let fake = Fake::ready();
    fake.remove(&format!("sys/bus/pci/devices/{NIC}/driver"))
        .remove("sys/bus/pci/drivers/vfio-pci")
        .driver(Bus::Pci, NIC, "mlx5_vfio_pci");
    assert_eq!(fake.obstacles(NIC), []);
}

#[test]
fn a_driver_that_is_absent_is_loaded_or_said_to_be_missing() {
    let fake = unbound();
    fake.remove("sys/bus/pci/drivers/vfio-pci").release();
    let state = |fake: &Fake| match fake.obstacles(NIC).remove(0) {
        Obstacle::NoModule {
            bus: Bus::Pci,
            state,
        } => state,
        other => panic!("{other:?}"),
    };
    let release = RELEASE.to_owned();
    assert_eq!(state(&fake), ModuleState::NoModules { release });
    let dep = "kernel/drivers/vfio/vfio.ko.xz:\nkernel/vfio-pci-core.ko: vfio-pci.ko\n";
    fake.modules("modules.dep", dep);
    let release = RELEASE.to_owned();
    assert_eq!(state(&fake), ModuleState::NotBuilt { release });
    let dep = "kernel/drivers/vfio/pci/vfio_pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n";
    fake.modules("modules.dep", dep);
    assert_eq!(state(&fake), ModuleState::NotLoaded);
    let obstacle = fake.obstacles(NIC).remove(0);
    assert_eq!(obstacle.to_string(), "module vfio-pci is not loaded");
}

#[test]
fn a_group_with_a_driver_of_the_hosts_is_not_viable() {
    let fake = Fake::ready();
    let audio = "0000:00:03.1";
    fake.pci(audio, 0x04_0300)
        .group(Bus::Pci, audio, 7)
        .driver(Bus::Pci, audio, "snd_hda_intel");
    let obstacle = only(&fake, NIC);
    assert!(obstacle.is_blocking());
    assert_eq!(
        obstacle.to_string(),
        "group 7 is not viable: 0000:00:03.1 is bound to the host's driver snd_hda_intel"
    );
}

#[test]
fn a_group_is_viable_beside_ports_stubs_and_devices_without_a_driver() {
    let fake = Fake::ready();
    let members = [
        ("0000:00:01.0", 0x06_0400, Some("pcieport")),
        ("0000:00:01.1", 0x06_0400, None),
        ("0000:00:03.1", 0x04_0300, None),
        ("0000:00:03.2", 0x04_0300, Some("pci-stub")),
        ("0000:00:03.3", 0x04_0300, Some("vfio-pci")),
    ];
    for (name, class, driver) in members {
        fake.pci(name, class).group(Bus::Pci, name, 7);
        if let Some(driver) = driver {
            fake.driver(Bus::Pci, name, driver);
        }
    }
    assert_eq!(fake.obstacles(NIC), []);
}

#[test]
fn a_bridge_of_another_driver_makes_the_group_not_viable() {
    let fake = Fake::ready();
    let bridge = "0000:00:01.0";
    fake.pci(bridge, 0x06_0400)
        .group(Bus::Pci, bridge, 7)
        .driver(Bus::Pci, bridge, "shpchp");
    let Obstacle::GroupNotViable { group: 7, members } = only(&fake, NIC) else {
        panic!("the bridge is not in the way");
    };
    assert!(members[0].is_bridge && members[0].name == bridge);
}

#[test]
fn no_reset_of_a_pci_function_is_a_warning() {
    let fake = Fake::ready();
    fake.remove(&format!("sys/bus/pci/devices/{NIC}/reset_method"));
    let obstacle = only(&fake, NIC);
    assert_eq!(obstacle, Obstacle::NoReset { required: false });
    assert!(!obstacle.is_blocking());
}

#[test]
fn no_reset_of_a_platform_device_is_refused_unless_the_module_is_told() {
    let fake = Fake::new();
    let device = "sys/bus/platform/devices/fff51000.ethernet";
    fake.modules("modules.alias", "")
        .write(
            &format!("{device}/of_node/compatible"),
            "calxeda,hb-xgmac\0",
        )
        .write(&format!("{device}/of_node/reg"), [0; 8])
        .group(Bus::Platform, "fff51000.ethernet", 2)
        .driver_of(Bus::Platform, "vfio-platform");
    let obstacles = fake.obstacles("fff51000.ethernet");
    assert_eq!(obstacles[0], Obstacle::NoReset { required: true });
    assert!(obstacles[0].is_blocking());
    fake.write("sys/module/vfio_platform/parameters/reset_required", "N\n");
    let obstacles = fake.obstacles("fff51000.ethernet");
    assert_eq!(obstacles[0], Obstacle::NoReset { required: false });
}

#[test]
fn an_amba_device_is_bound_to_the_driver_of_its_bus() {
    let fake = Fake::new();
    fake.rtc()
        .group(Bus::Amba, RTC, 3)
        .driver_of(Bus::Amba, "vfio-amba");
    let (bus, name) = (Bus::Amba, RTC.to_owned());
    assert_eq!(only(&fake, RTC), Obstacle::NotBound { bus, name });
}

#[test]
fn a_bridge_is_refused_with_its_reason() {
    let fake = Fake::new();
    fake.pci("0000:00:01.0", 0x06_0400);
    let reason = LeftOut::Bridge;
    let obstacle = only(&fake, "0000:00:01.0");
    assert_eq!(obstacle, Obstacle::LeftOut { reason });
    assert!(obstacle.is_blocking());
    assert_eq!(
        obstacle.to_string(),
        "the device is a bridge: assign the devices behind it"
    );
}

#[test]
fn obstacles_are_in_the_order_in_which_they_are_mended() {
    let fake = Fake::new();
    fake.pci(NIC, 0x02_0000).driver(Bus::Pci, NIC, "e1000e");
    let short: Vec<_> = fake.obstacles(NIC).iter().map(Obstacle::short).collect();
    assert_eq!(
        short,
        [
            "no iommu group",
            "module absent",
            "no reset",
            "driver bound"
        ]
    );
}
