//! The states of a forwarded interrupt, as the guest's interrupt controller shows them, and what may change them.

use vmbell_hypervisor::{ForwardedState, Hypervisor};
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::placed::{Handover, Placed};

use super::guest::{AGAIN, CHECK, Guest, HELD, STATES};
use super::{CLEAR, Clock};
use testbed::await_that;

/// The states of the clock's interrupt that the guest may see.
const ACTIVE: u64 = 1 << 2;
const ACTIVE_AND_PENDING: u64 = 1 << 3;

fn state(placed: &Placed) -> ForwardedState {
    placed.forwarded().unwrap()[0]
}

fn row_12_active_interrupt_is_not_made_pending_whatever_its_line_does<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || {
        for _ in 0..10 {
            guest.hold();
            await_that("the interrupt to be active", || state(&placed).is_active);
            let injected = state(&placed).injected;
            for _ in 0..5 {
                clock.write(CLEAR, 1);
                clock.raise();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            // The host does not take these interrupts, so it does not add them to the active one.
            assert_eq!(state(&placed).injected, injected);
            assert_eq!(guest.word(HELD), injected);
            guest.release();
            guest.await_more("interrupts", 2);
        }
    });
    assert_eq!((state(&placed).signalled, guest.spurious()), (0, 0));
}

fn row_12_second_edge_is_pending_in_the_hardware_while_the_first_is_active<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let _placed = guest.wired(&clock, Handover::Forwarded);
    guest.set(CHECK, 1);
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 20);
    assert_eq!(guest.word(STATES), ACTIVE);
    // KVM asks the host's distributor whether an interrupt of the hardware is pending.
    guest.set(STATES, 0);
    guest.set(AGAIN, 10);
    guest.take(&mut vcpu, 30);
    assert_eq!(guest.word(STATES), ACTIVE | ACTIVE_AND_PENDING);
}

fn row_12_second_edge_while_active_is_latched_and_taken_once<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.set(AGAIN, 30);
    guest.take(&mut vcpu, 1);
    // The program waited for the first interrupt only; the others followed at its end.
    let mut taken = guest.served();
    while taken < 31 {
        guest.take(&mut vcpu, 1);
        taken = guest.served();
    }
    let state = state(&placed);
    assert_eq!((state.injected, state.signalled), (taken, 0));
    assert_eq!((guest.word(AGAIN), guest.spurious()), (0, 0));
}

fn row_12_mask_while_active_is_refused_and_no_interrupt_is_lost<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || {
        for _ in 0..20 {
            guest.hold();
            await_that("the interrupt to be active", || state(&placed).is_active);
            for refused in [
                clock.device.mask(0, 0),
                clock.device.unmask(0, 0),
                clock.device.trigger(0, 0),
                clock.device.disable(0),
            ] {
                let error = refused.unwrap_err();
                let is_busy = matches!(&error.kind, PassthroughErrorKind::Interrupt { source, .. }
                    if source.raw_os_error() == Some(libc::EBUSY));
                assert!(is_busy, "{error:?}");
            }
            guest.release();
            guest.await_more("interrupts", 3);
        }
    });
    assert_eq!((state(&placed).signalled, guest.spurious()), (0, 0));
}

fn row_12_guest_that_ends_while_active_gives_the_line_back<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || guest.hold());
    assert!(state(&placed).is_active);
    // The forwarding keeps the VM until it is undone.
    drop((vcpu, guest));
    assert!(state(&placed).is_active);
    drop(placed);
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    assert_eq!(state(&placed), ForwardedState::default());
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 20);
    assert_eq!(state(&placed).injected, 20);
}

testbed::on_kvm! {
    row_12_active_interrupt_is_not_made_pending_whatever_its_line_does;
    row_12_second_edge_is_pending_in_the_hardware_while_the_first_is_active;
    row_12_second_edge_while_active_is_latched_and_taken_once;
    row_12_mask_while_active_is_refused_and_no_interrupt_is_lost;
    row_12_guest_that_ends_while_active_gives_the_line_back;
}
