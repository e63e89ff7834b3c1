use super::*;

fn of_no_group(cause: NoIommu) -> String {
    commands(&Obstacle::NoIommuGroup { cause }).join("\n")
}

#[test]
fn a_device_of_the_hosts_driver_is_given_to_vfio() {
    let obstacle = Obstacle::BoundToDriver {
        bus: Bus::Pci,
        name: "0000:00:03.0".to_owned(),
        driver: "e1000e".to_owned(),
    };
    assert_eq!(
        commands(&obstacle),
        [
            "echo vfio-pci > /sys/bus/pci/devices/0000:00:03.0/driver_override",
            "echo 0000:00:03.0 > /sys/bus/pci/devices/0000:00:03.0/driver/unbind",
            "echo 0000:00:03.0 > /sys/bus/pci/drivers_probe",
        ]
    );
}

#[test]
fn a_device_without_a_driver_is_bound_to_that_of_its_bus() {
    for (bus, driver) in [(Bus::Pci, "vfio-pci"), (Bus::Amba, "vfio-amba")] {
        let name = "9010000.pl031".to_owned();
        assert_eq!(
            commands(&Obstacle::NotBound { bus, name }),
            [
                format!("echo {driver} > /sys/bus/{bus}/devices/9010000.pl031/driver_override"),
                format!("echo 9010000.pl031 > /sys/bus/{bus}/drivers_probe"),
            ]
        );
    }
}

#[test]
fn a_name_that_a_shell_would_split_or_run_is_quoted() {
    let of_name = |name: &str| {
        commands(&Obstacle::NotBound {
            bus: Bus::Platform,
            name: name.to_owned(),
        })
    };
    assert_eq!(
        of_name("Fixed MDIO bus.0"),
        [
            "echo vfio-platform > '/sys/bus/platform/devices/Fixed MDIO bus.0/driver_override'",
            "echo 'Fixed MDIO bus.0' > /sys/bus/platform/drivers_probe",
        ]
    );
    assert_eq!(
        of_name("a'; reboot '")[1],
        r"echo 'a'\''; reboot '\''' > /sys/bus/platform/drivers_probe"
    );
}

#[test]
fn a_module_is_loaded_or_the_option_of_the_kernel_that_has_it_is_named() {
    let of_module = |bus, state| commands(&Obstacle::NoModule { bus, state });
    assert_eq!(
        of_module(Bus::Pci, ModuleState::NotLoaded),
        ["modprobe vfio-pci"]
    );
    for (bus, option) in [
        (Bus::Pci, "CONFIG_VFIO_PCI"),
        (Bus::Platform, "CONFIG_VFIO_PLATFORM"),
        (Bus::Amba, "CONFIG_VFIO_AMBA"),
    ] {
        let release = "6.12.0".to_owned();
        let not_built = of_module(bus, ModuleState::NotBuilt { release });
        assert_eq!(not_built, [format!("# use a kernel with {option}=m")]);
        let release = "6.12.0".to_owned();
        let [line] = &of_module(bus, ModuleState::NoModules { release })[..] else {
            panic!("one line is expected");
        };
        assert!(line.contains("6.12.0") && line.contains(option), "{line}");
    }
}

#[test]
fn other_devices_of_a_group_are_given_up_by_the_host() {
    let member = |name: &str, bus, is_bridge| Member {
        name: name.to_owned(),
        bus,
        driver: Some("any".to_owned()),
        is_bridge,
    };
    let members = vec![
        member("0000:00:03.1", Some(Bus::Pci), false),
        member("0000:00:01.0", Some(Bus::Pci), true),
        member("usb1", None, false),
    ];
    assert_eq!(
        commands(&Obstacle::GroupNotViable { group: 7, members }),
        [
            "echo vfio-pci > /sys/bus/pci/devices/0000:00:03.1/driver_override",
            "echo 0000:00:03.1 > /sys/bus/pci/devices/0000:00:03.1/driver/unbind",
            "echo 0000:00:03.1 > /sys/bus/pci/drivers_probe",
            "echo 0000:00:01.0 > /sys/bus/pci/devices/0000:00:01.0/driver/unbind",
            "# unbind usb1 from its driver",
        ]
    );
}

#[test]
fn a_platform_device_that_cannot_be_reset_needs_a_parameter_of_the_module() {
    assert_eq!(
        commands(&Obstacle::NoReset { required: true }),
        [
            "modprobe -r vfio-platform",
            "modprobe vfio-platform reset_required=0"
        ]
    );
    assert!(commands(&Obstacle::NoReset { required: false }).is_empty());
}

#[test]
fn files_in_dev_are_made_or_given_to_the_user() {
    assert_eq!(commands(&Obstacle::NoContainer), ["modprobe vfio"]);
    let path = "/dev/vfio/7".to_owned();
    let [line] = &commands(&Obstacle::NoFile { path })[..] else {
        panic!("one line is expected");
    };
    assert!(
        line.starts_with("# ") && line.contains("/dev/vfio/7"),
        "{line}"
    );
    let refused = Obstacle::NoPermission {
        path: "/dev/vfio/7".to_owned(),
        user: 1000,
    };
    assert_eq!(commands(&refused), ["chown 1000 /dev/vfio/7"]);
}

#[test]
fn an_iommu_that_is_off_is_turned_on_by_what_turned_it_off() {
    let turned_off = NoIommu::TurnedOff {
        option: "amd_iommu=off".to_owned(),
    };
    for (cause, text) in [
        (turned_off, "remove amd_iommu=off"),
        (NoIommu::UnsafeMode, "enable_unsafe_noiommu_mode"),
        (NoIommu::IntelOptionMissing, "intel_iommu=on"),
        (NoIommu::IntelNotDescribed, "VT-d"),
        (NoIommu::AmdNotDescribed, "AMD-Vi"),
        (NoIommu::ArmNoSmmu, "CONFIG_ARM_SMMU_V3"),
        (NoIommu::NotServed, "no command can change this"),
        (NoIommu::Unknown, "dmesg | grep -i -e iommu -e dmar -e smmu"),
    ] {
        let lines = of_no_group(cause.clone());
        assert!(lines.contains(text), "{cause:?}: {lines}");
    }
}
