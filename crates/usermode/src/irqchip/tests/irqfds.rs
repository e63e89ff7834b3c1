//! Irqfds without a resamplefd: which eventfds may be irqfds, which interrupts their signals raise, and that their
//! removal does not affect other irqfds.

use super::chip::Chip;
use vmbell::irq::{IrqError, Msi, Target};

#[test]
fn irqfd_is_an_edge() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    for _ in 0..3 {
        chip.signal(1);
        assert_eq!(chip.serve(), Some(0x41));
    }
}

#[test]
fn eventfd_used_twice_is_ebusy_whatever_the_gsi() {
    let mut chip = Chip::full();
    chip.irqfd(1, 5).unwrap();
    for number in [5, 6] {
        let error = chip.irqfd(1, number).unwrap_err();
        assert!(matches!(error, IrqError::Busy));
        assert_eq!(error.errno(), libc::EBUSY);
    }
    chip.irqfd(2, 5).unwrap();
}

#[test]
fn irqfd_is_removed_by_eventfd_and_gsi_and_removing_none_is_no_error() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    assert!(!chip.remove(1, 6));
    assert!(!chip.remove(2, 5));
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
    assert!(chip.remove(1, 5));
    assert!(!chip.remove(1, 5));
    chip.signal(1);
    assert_eq!(chip.begin(), None);
    chip.irqfd(1, 6).unwrap();
}

#[test]
fn irqfd_that_goes_leaves_the_others_of_its_gsi_alone() {
    let mut chip = Chip::split();
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x45)))])
        .unwrap();
    for fd in [1, 2] {
        chip.irqfd(fd, 24).unwrap();
    }
    assert!(chip.remove(1, 24));
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x45));
    // An irqfd that is assigned again uses the route at that time.
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x55)))])
        .unwrap();
    chip.irqfd(1, 24).unwrap();
    for fd in [1, 2] {
        chip.signal(fd);
        assert_eq!(chip.serve(), Some(0x55));
    }
}

#[test]
fn irqfd_on_a_gsi_that_leads_nowhere_signals_nobody() {
    let mut chip = Chip::full();
    chip.irqfd(1, 100).unwrap();
    chip.signal(1);
    chip.line(100, true);
    assert_eq!(chip.begin(), None);
    assert_eq!(*chip.parts.woken.borrow(), [0; 0]);
}

#[test]
fn storm_of_edges_is_delivered_as_often_as_it_was_accepted() {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 1000 };
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.irqfd(1, 5).unwrap();
    let mut served = 0;
    for round in 0..ROUNDS {
        for _ in 0..=round % 3 {
            chip.signal(1);
        }
        served += usize::from(chip.serve().is_some());
    }
    assert_eq!(
        served, ROUNDS,
        "what comes while one is pending is coalesced"
    );
    assert_eq!(chip.parts.woken.borrow().len(), ROUNDS);
}
