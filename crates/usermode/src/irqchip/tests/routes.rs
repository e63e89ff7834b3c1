//! The targets of routes, and the tables that are refused.

use super::chip::Chip;
use vmbell::irq::{IrqError, Msi, Target};

#[test]
fn route_to_a_pin_needs_an_ioapic() {
    let mut chip = Chip::split();
    let error = chip.route(&[(5, Target::Pin(5))]).unwrap_err();
    assert!(matches!(error, IrqError::NoIoApic { .. }), "{error}");
    Chip::full().route(&[(5, Target::Pin(5))]).unwrap();
}

#[test]
fn message_route_sends_on_each_signal() {
    let mut chip = Chip::split();
    let to_second = Target::Msi(Msi::fixed(1, 0x55));
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x45))), (25, to_second)])
        .unwrap();
    chip.irqfd(1, 24).unwrap();
    chip.irqfd(2, 25).unwrap();
    chip.signal(1);
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x45));
    assert_eq!(chip.parts.lapics[1].next_interrupt(), Some(0x55));
    assert_eq!(*chip.parts.woken.borrow(), [0, 1]);
}

#[test]
fn bad_table_changes_nothing() {
    let mut chip = Chip::split();
    let good = (24, Target::Msi(Msi::fixed(0, 0x45)));
    chip.route(&[good]).unwrap();
    for (bad, expected) in [
        (vec![good, good], "gsi 24 has two routes"),
        (
            vec![good, (3, Target::Pin(24))],
            "pin 24 is out of range, the interrupt controller has 24",
        ),
        (
            vec![good, (3, Target::Msi(Msi::fixed(0, 15)))],
            "vector 15 is an exception's, interrupts begin at 16",
        ),
    ] {
        let error = chip.route(&bad).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.errno(), libc::EINVAL);
    }
    chip.irqfd(1, 24).unwrap();
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x45));
}
