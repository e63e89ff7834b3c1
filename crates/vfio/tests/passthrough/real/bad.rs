//! Impossible requests: each is an error that names what is wrong.

use std::fs;
use std::path::Path;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::kernel::Container;
use vmbell_vfio::placed::{Access, Handover, Place};
use vmbell_vfio::{PassthroughError, PassthroughErrorKind};

use super::{CARD, EDU, Real, alone_with_devices, group_file, sysfs};
use crate::passthrough::double::INTX;
use crate::passthrough::guest::{Guest, place, wire};
use testbed::{AREA, await_that, chain, event};

/// Takes a device from its driver, as the host's owner does; waits until no process has it.
pub fn unbind(name: &str, driver: &str) {
    let file = Path::new("/sys/bus/pci/drivers")
        .join(driver)
        .join("unbind");
    fs::write(file, name).unwrap();
}

/// Gives a device to the driver that the lab has chosen for it.
pub fn bind(name: &str) {
    fs::write("/sys/bus/pci/drivers_probe", name).unwrap();
    await_that("the group", || group_file(name).exists());
}

fn opened(name: &str) -> Result<(), PassthroughError> {
    let container = Container::open()?;
    container.device(&sysfs(name), None).map(drop)
}

fn second_container_is_refused<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let error = opened(EDU).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::InUse { .. }),
        "{}",
        chain(&error)
    );
    assert!(
        error.to_string().contains("is in use by another"),
        "{error}"
    );
    // The first container still works, and a second one is possible once the first is closed.
    edu.device.set_triggers(INTX, 0, &[Some(&event())]).unwrap();
    let Real {
        device,
        container,
        _alone,
    } = edu;
    drop((device, container));
    opened(EDU).unwrap();
}

fn one_container_has_the_devices_of_several_groups<H: Hypervisor>(_h: &H) {
    let _alone = alone_with_devices();
    let container = Container::open().unwrap();
    let edu = container.device(&sysfs(EDU), None).unwrap();
    let card = container.device(&sysfs(CARD), None).unwrap();
    // A device can be opened again in the same group, which stays until its last device is closed.
    let again = container.device(&sysfs(EDU), None).unwrap();
    drop(edu);
    assert!(opened(EDU).is_err());
    drop((again, card));
    opened(EDU).unwrap();
    opened(CARD).unwrap();
    let _edu = container.device(&sysfs(EDU), None).unwrap();
}

fn device_without_vfios_driver_is_refused<H: Hypervisor>(_h: &H) {
    let _alone = alone_with_devices();
    opened(EDU).unwrap();
    unbind(EDU, "vfio-pci");
    let error = opened(EDU).unwrap_err();
    bind(EDU);
    assert!(
        matches!(error.kind, PassthroughErrorKind::NotBound(_)),
        "{}",
        chain(&error)
    );
    let text = "0000:00:03.0: not bound to vfio-pci, vfio-platform or vfio-amba";
    assert_eq!(error.to_string(), text);
    opened(EDU).unwrap();
}

fn device_without_a_group_names_the_kernels_option<H: Hypervisor>(_h: &H) {
    sysfs(EDU);
    let container = Container::open().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = container.device(folder.path(), None).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::NoGroup(_)),
        "{error}"
    );
    assert!(error.to_string().contains("intel_iommu=on"), "{error}");
}

fn interrupt_out_of_range_is_refused<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    for (index, start) in [
        (INTX, 1),
        (2, 0),
        (3, 0),
        (5, 0),
        (u32::MAX, 0),
        (INTX, u32::MAX),
    ] {
        let error = device
            .set_triggers(index, start, &[Some(&trigger)])
            .unwrap_err();
        assert!(
            matches!(error.kind, PassthroughErrorKind::NoInterrupt { .. }),
            "{error}"
        );
    }
}

fn registers_over_ram_are_refused_and_nothing_stays<H: Hypervisor>(h: &H) {
    let real = Real::edu(None);
    let guest = Guest::new(h, &real.device, &[]);
    let over = Place {
        address: AREA,
        access: Access::Mapped,
        region: 0,
    };
    let error = guest.put(
        &real.device,
        &real.space(),
        &[over],
        &[wire(Handover::Irqfd)],
    );
    let error = error.map(drop).unwrap_err();
    assert!(chain(&error).contains("other memory"), "{}", chain(&error));
    let places = [place(h, true)];
    let placed = guest.put(
        &real.device,
        &real.space(),
        &places,
        &[wire(Handover::Irqfd)],
    );
    real.device.enable().unwrap();
    let _placed = placed.unwrap();
    assert_eq!(guest.run(10).interrupts, 10);
}

testbed::on_kvm! {
    second_container_is_refused;
    one_container_has_the_devices_of_several_groups;
    device_without_vfios_driver_is_refused;
    device_without_a_group_names_the_kernels_option;
    interrupt_out_of_range_is_refused;
    registers_over_ram_are_refused_and_nothing_stays;
}
