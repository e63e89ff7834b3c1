//! Tests with a doorbell: how often a doorbell is registered, for which writes, and when it is removed.

use super::*;

#[test]
fn writes_behind_a_doorbell_are_not_counted() {
    let mut pc = Pc::pv();
    for test in 1..4 {
        pc.store(MEMORY + TEST, &[test]);
        let (at, data) = (pc.load(MEMORY + 4, 4), pc.load(MEMORY + 8, 1));
        for _ in 0..16 {
            assert!(pc.store(MEMORY + at, &data.to_le_bytes()[..1]));
        }
        assert_eq!(pc.count(), 0, "test {test}");
        pc.out(PORTS + TEST, &[test]);
        let (at, data) = (pc.input(PORTS + 4, 4), pc.input(PORTS + 8, 1));
        for _ in 0..16 {
            assert!(pc.out(PORTS + at, &data.to_le_bytes()[..1]));
        }
        assert_eq!(pc.input(PORTS + COUNT, 4), 0, "test {test}");
    }
}

#[test]
fn datamatch_leaves_other_values_to_the_device_which_ignores_them() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[2]);
    let byte = MEMORY + 2050;
    assert!(!pc.store(byte, &[0xce]));
    assert_eq!(pc.count(), 0);
    assert!(!pc.store(byte, &[0xfa, 0]), "two bytes do not match");
    assert_eq!(pc.count(), 1, "but the device sees the byte");
    assert!(!pc.store(byte - 1, &[0xfa]) && !pc.store(byte + 1, &[0xfa]));
    assert_eq!(pc.count(), 1);
}

#[test]
fn wildcard_in_memory_takes_any_length_unless_there_is_a_fourth_test() {
    for (mut pc, any_length) in [(Pc::plain(), true), (Pc::pv(), false)] {
        pc.store(MEMORY + TEST, &[1]);
        let byte = MEMORY + 2049;
        assert!(pc.store(byte, &[1]));
        for wide in [&[0; 2][..], &[0; 4]] {
            assert_eq!(pc.store(byte, wide), any_length);
        }
        assert_eq!(pc.count(), if any_length { 0 } else { 2 });
    }
}

#[test]
fn wildcard_on_ports_takes_one_byte() {
    let mut pc = Pc::plain();
    pc.out(PORTS + TEST, &[1]);
    assert!(pc.out(PORTS + 132, &[0]));
    assert!(!pc.out(PORTS + 132, &[0, 0]));
    assert!(!pc.out(PORTS + 132, &[0, 0, 0, 0]));
    assert_eq!(pc.input(PORTS + COUNT, 4), 2);
}

#[test]
fn fourth_test_takes_any_length_on_both() {
    let mut pc = Pc::pv();
    pc.store(MEMORY + TEST, &[3]);
    for len in [1, 2, 4, 8] {
        assert!(pc.store(MEMORY + 2051, &vec![0xff; len]));
    }
    pc.out(PORTS + TEST, &[3]);
    for len in [1, 2, 4] {
        assert!(pc.out(PORTS + 135, &vec![0xff; len]));
    }
}

#[test]
fn selecting_again_leaves_exactly_one_registration() {
    let mut pc = Pc::plain();
    for test in [1, 1, 2, 2, 1] {
        pc.store(MEMORY + TEST, &[test]);
        assert_eq!(pc.doorbells(), 1);
        pc.out(PORTS + TEST, &[test]);
        assert_eq!(pc.doorbells(), 1);
    }
    pc.store(MEMORY + TEST, &[0]);
    assert_eq!(pc.doorbells(), 0);
    assert_eq!(pc.errors.load(Ordering::Relaxed), 0);
}

#[test]
fn bar_move_takes_the_doorbell_along() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[1]);
    pc.set_bar(0, 0xe100_0000);
    assert_eq!(pc.doorbells(), 1);
    assert!(!pc.store(MEMORY + 2049, &[0]), "the doorbell has moved");
    assert!(pc.store(0xe100_0000 + 2049, &[0]));
    // A move of the other BAR does not affect the doorbell.
    pc.set_bar(1, 0xd000);
    assert_eq!(pc.doorbells(), 1);
    assert!(pc.store(0xe100_0000 + 2049, &[0]));
    assert_eq!(pc.load(0xe100_0000 + COUNT, 4), 0);
}

#[test]
fn sizing_while_a_test_is_active_ends_with_the_doorbell_in_place() {
    let mut pc = Pc::plain();
    pc.out(PORTS + TEST, &[2]);
    pc.set_bar(1, u32::MAX);
    assert_eq!(pc.doorbells(), 0, "the BAR is nowhere");
    pc.set_bar(1, u32::try_from(PORTS).unwrap());
    assert_eq!(pc.doorbells(), 1);
    assert!(pc.out(PORTS + 133, &[0xfa]));
}

#[test]
fn decode_off_and_on_removes_the_doorbell_and_brings_it_back() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[1]);
    pc.config(4, &[1, 0]);
    assert_eq!(pc.doorbells(), 0);
    assert!(!pc.store(MEMORY + 2049, &[0]));
    pc.config(4, &[3, 0]);
    assert!(pc.store(MEMORY + 2049, &[0]));
}

#[test]
fn device_reset_deregisters() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[1]);
    pc.root.reset();
    assert_eq!(pc.doorbells(), 0);
    assert_eq!(pc.load(MEMORY + WIDTH, 1), 0);
}

#[test]
fn device_that_goes_takes_its_doorbell_with_it() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[1]);
    let registry = Arc::clone(&pc.registry);
    drop(pc);
    assert_eq!(registry.registered(), 0);
}

#[test]
fn refused_doorbell_selects_nothing_and_is_reported() {
    let registry = Registry {
        refuse: true,
        ..Registry::default()
    };
    let mut pc = Pc::with(PciTestdevConfig::default(), registry);
    pc.store(MEMORY + TEST, &[1]);
    assert_eq!(pc.load(MEMORY + WIDTH, 1), 0);
    assert_eq!(pc.errors.load(Ordering::Relaxed), 1);
    pc.store(MEMORY + TEST, &[0]);
    assert_eq!(pc.load(MEMORY + WIDTH, 1), 1, "this one needs none");
}
