//! The edges of `SET_IRQS`, of regions and of resets, as the kernel has them for PCI devices.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::interrupt::Line;
use vmbell_vfio::placed::Handover;

use super::raw::{BOOL, EVENTFD, HEAD, MASK, NONE, Raw, TRIGGER, UNMASK, map, reset, unknown};
use super::{Real, acknowledge, assert_signalled, assert_silent, raise, raw};
use crate::passthrough::double::{CONFIG, Edu, INTX, MSI};
use crate::passthrough::guest::{Guest, line, place, wire};
use testbed::{await_that, count, event};

/// Requests that are refused before their action is looked at.
fn row_1_request_that_is_malformed_is_invalid<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let disable = Raw::none(TRIGGER, INTX, 0);
    let fd = event();
    let eventfd = Raw::eventfd(TRIGGER, INTX, fd.as_raw_fd());
    let count = device.irqs().len() as u32;
    let requests = [
        Raw {
            argsz: HEAD - 1,
            ..disable
        },
        Raw {
            index: count,
            ..disable
        },
        Raw {
            index: u32::MAX,
            ..disable
        },
        // 2^32 - 1 and more interrupts.
        Raw {
            count: u32::MAX,
            ..disable
        },
        Raw {
            start: 1,
            count: u32::MAX - 1,
            ..disable
        },
        Raw {
            flags: NONE | TRIGGER | 1 << 6,
            ..disable
        },
        Raw {
            flags: NONE | TRIGGER | 1 << 31,
            ..disable
        },
        Raw {
            start: 1,
            ..disable
        },
        Raw {
            count: 2,
            ..disable
        },
        // No type of data, and several.
        Raw {
            flags: TRIGGER,
            ..disable
        },
        Raw {
            flags: NONE | BOOL | TRIGGER,
            ..disable
        },
        Raw {
            flags: EVENTFD | BOOL | TRIGGER,
            ..eventfd
        },
        // A payload that is cut off.
        Raw {
            argsz: HEAD + 3,
            ..eventfd
        },
        Raw {
            argsz: HEAD,
            flags: BOOL | TRIGGER,
            count: 1,
            ..disable
        },
    ];
    for request in requests {
        assert_eq!(request.errno(device), libc::EINVAL, "{request:?}");
    }
    assert_eq!(unknown(device), libc::ENOTTY);
}

/// A request without an action that the index has is unknown.
fn row_1_request_without_one_action_is_unknown<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let one = Raw::none(TRIGGER, INTX, 1);
    let fd = event();
    let requests = [
        Raw { flags: NONE, ..one },
        Raw {
            flags: NONE | MASK | UNMASK,
            ..one
        },
        Raw {
            flags: NONE | TRIGGER | UNMASK,
            ..one
        },
        // Edges have no masks.
        Raw::none(MASK, MSI, 1),
        Raw::none(UNMASK, MSI, 1),
        Raw::eventfd(UNMASK, MSI, fd.as_raw_fd()),
    ];
    for request in requests {
        assert_eq!(request.errno(device), libc::ENOTTY, "{request:?}");
    }
    // A line that is on cannot be masked by an eventfd.
    device.set_triggers(INTX, 0, &[Some(&fd)]).unwrap();
    assert_eq!(
        Raw::eventfd(MASK, INTX, fd.as_raw_fd()).errno(device),
        libc::ENOTTY
    );
}

/// Files that are not eventfds.
fn row_1_trigger_that_is_no_eventfd_is_refused<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let null = std::fs::File::open("/dev/null").unwrap();
    for index in [INTX, MSI] {
        let errno = Raw::eventfd(TRIGGER, index, null.as_raw_fd()).errno(device);
        assert_eq!(errno, libc::EINVAL, "index {index}");
        let errno = Raw::eventfd(TRIGGER, index, 1 << 20).errno(device);
        assert_eq!(errno, libc::EBADF, "index {index}");
    }
    // An eventfd of -1 removes the trigger.
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_triggers(INTX, 0, &[None]).unwrap();
    raise(device);
    assert_silent(&trigger);
}

/// A line that is off.
fn row_1_line_that_is_off_has_no_masks<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    for request in [
        Raw::none(MASK, INTX, 1),
        Raw::none(UNMASK, INTX, 1),
        Raw::none(TRIGGER, INTX, 1),
        Raw::none(TRIGGER, INTX, 0),
    ] {
        let errno = request.errno(device);
        println!("{request:?}: {errno}");
        assert!([0, libc::EINVAL].contains(&errno), "{request:?}: {errno}");
    }
    assert!(device.unmask(INTX, 0).is_err());
}

/// Tests only what applies to PCI: its loopback masks nothing.
fn row_2_unmask_is_idempotent<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.trigger(INTX, 0).unwrap();
    assert_signalled(&trigger);
    for _ in 0..2 {
        device.unmask(INTX, 0).unwrap();
        assert_silent(&trigger);
    }
    raise(device);
    assert_signalled(&trigger);
}

fn row_3_unmask_eventfd_is_taken_back_before_another<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let (trigger, unmask, other) = (event(), event(), event());
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_unmask(INTX, 0, Some(&unmask)).unwrap();
    for again in [&unmask, &other] {
        let errno = Raw::eventfd(UNMASK, INTX, again.as_raw_fd()).errno(device);
        assert_eq!(errno, libc::EBUSY);
    }
    device.set_unmask(INTX, 0, None).unwrap();
    // The new eventfd is signalled already, which unmasks at once.
    raise(device);
    assert_signalled(&trigger);
    other.write(1).unwrap();
    device.set_unmask(INTX, 0, Some(&other)).unwrap();
    assert_signalled(&trigger);
}

fn row_4_line_that_stays_up_is_signalled_once_until_it_is_unmasked<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    for _ in 0..50 {
        raise(device);
    }
    assert_signalled(&trigger);
    assert_silent(&trigger);
    for _ in 0..50 {
        device.unmask(INTX, 0).unwrap();
        assert_signalled(&trigger);
    }
    acknowledge(device);
    device.unmask(INTX, 0).unwrap();
    assert_silent(&trigger);
}

/// This test uses a double, because the lab has only one device with a line.
fn row_5_one_end_is_told_to_all_devices_of_a_line<H: Hypervisor>(h: &H) {
    let (real, other) = (Real::edu(None), Edu::pci());
    let places = [place(h, true)];
    let guest = Guest::new(h, &real.device, &places);
    let placed = guest.put(
        &real.device,
        &real.space(),
        &places,
        &[wire(Handover::Irqfd)],
    );
    let _placed = placed.unwrap();
    let irqs = guest.parts().irqs;
    let _second = Line::connect(&other.open(), INTX, &irqs, line()).unwrap();
    let run = guest.run(100);
    assert_eq!((run.interrupts, run.spurious), (100, 0));
    await_that("an end", || other.unmasked(INTX) > 0);
    assert!(other.unmasked(INTX) <= 100);
}

fn row_6_irqfd_that_is_dropped_while_the_line_is_up_harms_nobody<H: Hypervisor>(h: &H) {
    let real = Real::edu(None);
    let device = &real.device;
    let places = [place(h, true)];
    let guest = Guest::new(h, device, &places);
    let (trigger, resample) = (event(), event());
    let irqs = guest.parts().irqs;
    let irqfd = irqs
        .register_irqfd(&trigger, line(), Some(&resample))
        .unwrap();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_unmask(INTX, 0, Some(&resample)).unwrap();
    raise(device);
    drop((irqfd, trigger, resample));
    std::thread::sleep(std::time::Duration::from_millis(50));
    device.set_unmask(INTX, 0, None).unwrap();
    device.disable(INTX).unwrap();
    acknowledge(device);
    let placed = guest.put(device, &real.space(), &places, &[wire(Handover::Irqfd)]);
    let _placed = placed.unwrap();
    let run = guest.run(100);
    assert_eq!((run.interrupts, run.spurious), (100, 0));
}

fn row_7_device_that_is_closed_with_its_eventfds_lets_go_of_them<H: Hypervisor>(_h: &H) {
    let (trigger, unmask) = (event(), event());
    for _ in 0..20 {
        let Real { device, .. } = &Real::edu(None);
        device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
        device.set_unmask(INTX, 0, Some(&unmask)).unwrap();
        raise(device);
        assert_signalled(&trigger);
    }
    // Edu has no reset, so its line is still up.
    unmask.write(1).unwrap();
    assert_silent(&trigger);
    assert_eq!(count(&unmask), 1, "no device takes it");
}

/// Ports and configuration space are not memory.
fn row_8_region_that_is_no_whole_pages_cannot_be_mapped<H: Hypervisor>(_h: &H) {
    let card = Real::card();
    let small: Vec<_> = card
        .device
        .regions()
        .iter()
        .filter(|region| region.size > 0 && region.areas.is_empty())
        .collect();
    println!("{small:x?}");
    assert!(small.iter().any(|region| region.index == 2), "the ports");
    assert!(small.iter().any(|region| region.index == CONFIG));
    for region in small {
        assert_eq!(map(&card.device, region.offset), libc::EINVAL, "{region:?}");
    }
    let memory = card.device.region(0).unwrap();
    assert_eq!(map(&card.device, memory.offset), 0);
    assert_eq!(map(&card.device, memory.offset + memory.size), libc::EINVAL);
}

/// The kernel cuts an access off, and the core refuses it.
fn row_9_access_over_the_end_of_a_region_is_refused<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    // Registers are cut off at the end, and configuration space has its own errno.
    for (index, errno, cut) in [(0, libc::EINVAL, Ok(2)), (CONFIG, libc::EFAULT, Err(14))] {
        let region = device.region(index).unwrap();
        let (file, end) = (raw::file(device), region.offset + region.size);
        let mut data = [0; 4];
        let mut read = |at| {
            let result = file.read_at(&mut data, at);
            result.map_err(|error| error.raw_os_error().unwrap())
        };
        assert_eq!(read(end), Err(errno), "region {index}");
        assert_eq!(read(end - 2), cut, "region {index}");
        for offset in [region.size, region.size - 2, u64::MAX] {
            let error = device.read(index, offset, &mut data).unwrap_err();
            assert!(
                matches!(error.kind, PassthroughErrorKind::Access { .. }),
                "{error}"
            );
        }
    }
}

fn row_13_line_is_level_and_messages_are_edges<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    let irq = |index| *edu.device.irq(index).unwrap();
    assert!(irq(INTX).automasked && irq(INTX).maskable && irq(INTX).eventfd);
    assert!(!irq(MSI).automasked && !irq(MSI).maskable && irq(MSI).eventfd);
    drop(edu);
    let card = Real::card();
    let count = |index| card.device.irq(index).unwrap().count;
    assert_eq!((count(INTX), count(MSI), count(2)), (1, 1, 5));
}

/// Tests only what applies to PCI: a device without a reset is assigned anyway, and says so.
fn row_15_device_without_a_reset_says_so<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    assert!(!edu.device.can_reset());
    let error = edu.device.reset().unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::NoReset),
        "{error}"
    );
    assert_eq!(reset(&edu.device), libc::EINVAL);
}

/// Power management resets the card. QEMU's card keeps its registers in such a reset.
fn device_with_a_reset_is_reset<H: Hypervisor>(_h: &H) {
    const STATUS: u64 = 0x8;
    let card = Real::card();
    assert!(card.device.can_reset());
    let fresh = super::read(&card.device, STATUS);
    card.device.reset().unwrap();
    card.device.enable().unwrap();
    assert_eq!(super::read(&card.device, STATUS), fresh);
}

testbed::on_kvm! {
    row_1_request_that_is_malformed_is_invalid;
    row_1_request_without_one_action_is_unknown;
    row_1_trigger_that_is_no_eventfd_is_refused;
    row_1_line_that_is_off_has_no_masks;
    row_2_unmask_is_idempotent;
    row_3_unmask_eventfd_is_taken_back_before_another;
    row_4_line_that_stays_up_is_signalled_once_until_it_is_unmasked;
    row_5_one_end_is_told_to_all_devices_of_a_line;
    row_6_irqfd_that_is_dropped_while_the_line_is_up_harms_nobody;
    row_7_device_that_is_closed_with_its_eventfds_lets_go_of_them;
    row_8_region_that_is_no_whole_pages_cannot_be_mapped;
    row_9_access_over_the_end_of_a_region_is_refused;
    row_13_line_is_level_and_messages_are_edges;
    row_15_device_without_a_reset_says_so;
    device_with_a_reset_is_reset;
}
