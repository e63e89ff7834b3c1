//! Requests by the host and by tests: the host asks for the device back, loopback interrupts, and eventfds that are set
//! twice.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::interrupt::{Line, RemovalRequest};
use vmbell_vfio::placed::Handover;

use super::Doubled;
use crate::passthrough::double::{CONFIG, Edu, INTX, RAISE};
use crate::passthrough::guest::{Guest, line};
use testbed::{await_that, chain, count, event};

fn device_that_the_host_wants_back_is_given_back<H: Hypervisor>(h: &H) {
    let Doubled {
        placed,
        guest,
        edu,
        space,
    } = Doubled::new(h, Handover::Irqfd, true);
    let asked = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&asked);
    let request = RemovalRequest::watch(placed.device(), move || {
        heard.fetch_add(1, SeqCst);
    });
    let request = request.unwrap().unwrap();
    guest.while_running(|| {
        edu.ask_back();
        await_that("the request", || asked.load(SeqCst) == 1);
        // The host asks again until the device is released.
        edu.ask_back();
        await_that("the request", || asked.load(SeqCst) == 2);
        assert!(!request.is_over());
        drop(placed);
        assert!(request.is_over(), "its device is gone");
        drop(request);
        edu.assert_given_back();
        assert_eq!(space.mapped(), []);
    });
}

#[test]
fn device_without_such_a_request_has_none() {
    let edu = Edu::platform(&[true, true, true, true, true]);
    let device = edu.open();
    assert!(RemovalRequest::watch(&device, || {}).unwrap().is_none());
}

#[test]
fn row_2_loopback_masks_a_level_line_and_unmask_is_idempotent() {
    let edu = Edu::platform(&[true]);
    let device = edu.open();
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.trigger(INTX, 0).unwrap();
    assert_eq!(count(&trigger), 1);
    edu.set_line(INTX, true);
    assert_eq!(count(&trigger), 0, "it is masked");
    edu.set_line(INTX, false);
    for _ in 0..2 {
        device.unmask(INTX, 0).unwrap();
        assert_eq!(count(&trigger), 0);
    }
    edu.set_line(INTX, true);
    assert_eq!(count(&trigger), 1);
}

#[test]
fn row_3_unmask_eventfd_is_taken_back_before_another() {
    let edu = Edu::pci();
    let device = edu.open();
    let (trigger, unmask, other) = (event(), event(), event());
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_unmask(INTX, 0, Some(&unmask)).unwrap();
    for again in [&unmask, &other] {
        let error = device.set_unmask(INTX, 0, Some(again)).unwrap_err();
        let PassthroughErrorKind::Interrupt { source, .. } = &error.kind else {
            panic!("{error}")
        };
        assert_eq!(
            source.raw_os_error(),
            Some(libc::EBUSY),
            "{}",
            chain(&error)
        );
    }
    device.set_unmask(INTX, 0, None).unwrap();
    // The new eventfd is signalled already, which unmasks at once.
    device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
    assert_eq!(count(&trigger), 1);
    other.write(1).unwrap();
    device.set_unmask(INTX, 0, Some(&other)).unwrap();
    await_that("the second signal", || count(&trigger) == 1);
}

fn line_is_connected_once<H: Hypervisor>(h: &H) {
    let edu = Edu::pci();
    let device = edu.open();
    let guest = Guest::new(h, &device, &[]);
    let irqs = guest.parts().irqs;
    let first = Line::connect(&device, INTX, &irqs, line()).unwrap();
    // The second line is refused, because the interrupt has an unmask eventfd.
    let error = Line::connect(&device, INTX, &irqs, line()).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::Interrupt { .. }),
        "{error}"
    );
    drop(first);
    edu.assert_quiet();
    drop(Line::connect(&device, INTX, &irqs, line()).unwrap());
    edu.assert_quiet();
}

#[test]
fn configuration_space_is_read_and_written() {
    let edu = Edu::pci();
    let device = edu.open();
    device.write(CONFIG, 4, &6_u16.to_le_bytes()).unwrap();
    let mut word = [0; 2];
    device.read(CONFIG, 4, &mut word).unwrap();
    assert_eq!(word, [6, 0]);
    let error = device.read(CONFIG, 255, &mut word).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::Access { .. }),
        "{error}"
    );
}

testbed::on_both! {
    device_that_the_host_wants_back_is_given_back;
    line_is_connected_once;
}
