//! The I/O APIC's registers, accessed through IOREGSEL and IOWIN (82093AA, "Register Description").

use super::super::ioapic::{BASE, SIZE};
use super::chip::{Chip, IOREGSEL, IOWIN, LEVEL, MASKED, REMOTE_IRR};

#[test]
fn registers_of_the_ioapic_are_those_of_the_datasheet() {
    let mut chip = Chip::full();
    assert_eq!(chip.read(1), 0x17_0011);
    assert_eq!(chip.read(0x10), MASKED);
    assert_eq!(chip.read(0x40), 0);
    assert_eq!((BASE, SIZE), (0xfec0_0000, 0x100));
    chip.entry(5, u32::MAX);
    let written = chip.read_entry(5);
    assert_eq!(written & (REMOTE_IRR | 1 << 12), 0, "read-only");
    assert_eq!(written, 0x1_afff);
    assert_eq!(chip.load(0x20), Some(0));
}

#[test]
fn identification_keeps_its_four_bits_and_arbitration_follows_it() {
    let mut chip = Chip::full();
    assert_eq!((chip.read(0), chip.read(2)), (0, 0));
    for (written, kept) in [(u32::MAX, 0x0f00_0000), (0x0a12_3456, 0x0a00_0000)] {
        chip.write(0, written);
        assert_eq!((chip.read(0), chip.read(2)), (kept, kept));
    }
    chip.write(2, 0x0500_0000);
    assert_eq!(chip.read(0), 0x0a00_0000, "arbitration is read-only");
}

#[test]
fn ioregsel_keeps_eight_bits() {
    let mut chip = Chip::full();
    chip.store(IOREGSEL, 0x1_2313);
    assert_eq!(chip.load(IOREGSEL), Some(0x13));
}

#[test]
fn store_beside_ioregsel_and_iowin_changes_nothing() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    for offset in [0x04, 0x08, 0x14, 0x20, 0x40, 0xfc] {
        chip.store(offset, MASKED | 0x51);
        assert_eq!(chip.load(IOREGSEL), Some(0x1a));
        assert_eq!(chip.load(IOWIN), Some(LEVEL | 0x41));
        assert_eq!(chip.load(offset), Some(0));
    }
}

#[test]
#[cfg_attr(miri, ignore = "all registers take half a minute")]
fn each_pin_has_a_redirection_entry_of_two_registers_and_there_are_no_more() {
    let mut chip = Chip::full();
    for pin in 0..24 {
        chip.write(0x10 + 2 * pin, MASKED | (0x40 + pin));
        chip.write(0x11 + 2 * pin, (0x80 + pin) << 24);
    }
    for register in [0x40, 0x41, 0xff, 0x0f, 0x03] {
        chip.write(register, u32::MAX);
        assert_eq!(chip.read(register), 0, "{register:#x}");
    }
    for pin in 0..24 {
        assert_eq!(chip.read(0x10 + 2 * pin), MASKED | (0x40 + pin));
        assert_eq!(chip.read(0x11 + 2 * pin), (0x80 + pin) << 24);
    }
}

#[test]
fn version_register_is_read_only() {
    let mut chip = Chip::full();
    chip.write(1, u32::MAX);
    assert_eq!(chip.read(1), 0x17_0011);
}
