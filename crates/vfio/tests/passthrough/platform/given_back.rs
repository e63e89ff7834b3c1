//! The clock after its guest: masked, reset, and silent.

use std::time::Duration;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::placed::Handover;

use super::guest::Guest;
use super::{ALARM, Clock, MASK, MASKED, MATCH, RAW};
use testbed::{await_that, count, event};

fn clock_is_given_back_masked_and_reset<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    assert!(clock.device.can_reset());
    for handover in [Handover::Irqfd, Handover::Forwarded] {
        let guest = Guest::new(h);
        let placed = guest.wired(&clock, handover);
        let mut vcpu = guest.start();
        guest.while_taking(&mut vcpu, || {
            guest.await_more("interrupts", 3);
            guest.hold();
        });
        assert_eq!([MASK, RAW, MASKED].map(|at| clock.read(at)), [1, 1, 1]);
        drop(placed);
        let left = [MASK, RAW, MASKED].map(|at| clock.read(at));
        assert_eq!(left, [0, 0, 0], "{handover:?}");
    }
}

fn clock_that_was_given_back_interrupts_nobody<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    for handover in [Handover::Irqfd, Handover::Forwarded] {
        let guest = Guest::new(h);
        let placed = guest.wired(&clock, handover);
        let mut vcpu = guest.start();
        guest.while_taking(&mut vcpu, || guest.hold());
        drop(placed);
        let trigger = event();
        let triggers = [Some(&*trigger)];
        // A line that was signalled and given back before its end is masked by vfio.
        let _ = clock.device.unmask(0, 0);
        clock.device.set_triggers(0, 0, &triggers).unwrap();
        clock.write(MATCH, ALARM);
        clock.raise();
        assert_eq!(clock.read(RAW), 1);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(count(&trigger), 0, "its mask is set, {handover:?}");
        // The line itself works.
        clock.write(MASK, 1);
        let mut signals = 0;
        await_that("the signal", || {
            signals += count(&trigger);
            signals > 0
        });
        assert_eq!(signals, 1);
        clock.device.disable(0).unwrap();
        clock.device.reset().unwrap();
    }
}

testbed::on_kvm! {
    clock_is_given_back_masked_and_reset;
    clock_that_was_given_back_interrupts_nobody;
}
