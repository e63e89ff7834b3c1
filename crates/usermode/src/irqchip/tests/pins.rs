//! When a pin sends an interrupt, depending on its redirection entry, its line and the EOI of its last
//! interrupt.

use super::chip::{Chip, LEVEL, MASKED, REMOTE_IRR};

#[test]
fn edge_pin_sends_on_each_rise() {
    let mut chip = Chip::full();
    chip.entry(5, 0x41);
    chip.line(5, true);
    assert_eq!(chip.serve(), Some(0x41));
    chip.line(5, true);
    assert_eq!(chip.serve(), None, "it was up already");
    chip.line(5, false);
    chip.line(5, true);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!(*chip.parts.woken.borrow(), [0, 0]);
}

#[test]
fn level_pin_sends_until_the_device_lets_go() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    for _ in 0..3 {
        assert_eq!(chip.serve(), Some(0x41));
    }
    assert_eq!(chip.begin(), Some(0x41));
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn level_pin_sends_once_before_its_eoi() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    assert_eq!(chip.begin(), Some(0x41));
    assert_eq!(chip.read_entry(5), LEVEL | REMOTE_IRR | 0x41);
    chip.line(5, false);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    chip.end();
    assert_eq!(chip.serve(), Some(0x41));
}

#[test]
fn masked_level_is_remembered_and_a_masked_edge_is_lost() {
    let mut chip = Chip::full();
    chip.entry(4, MASKED | 0x41);
    chip.entry(5, MASKED | LEVEL | 0x51);
    chip.line(4, true);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    chip.entry(4, 0x41);
    chip.entry(5, LEVEL | 0x51);
    assert_eq!(chip.serve(), Some(0x51));
    chip.line(5, false);
    assert_eq!(chip.begin(), Some(0x51));
}

#[test]
fn pin_made_an_edge_one_forgets_its_eoi() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    chip.entry(5, 0x41);
    assert_eq!(chip.read_entry(5), 0x41);
}

#[test]
fn pin_with_a_vector_below_16_delivers_nothing() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x0f);
    chip.line(5, true);
    assert_eq!(chip.begin(), None);
    assert_eq!(chip.read_entry(5) & REMOTE_IRR, 0, "no local apic took it");
}
