//! The local APICs to which a redirection entry sends (82093AA, "I/O Redirection Table Registers").

use vmbell_core::lapic::Register;

use super::chip::{Chip, LEVEL};

const LOGICAL: u32 = 1 << 11;
const LOWEST_PRIORITY: u32 = 1 << 8;
const REMOTE_IRR: u32 = 1 << 14;

/// Returns the vCPUs on which a vector is pending after pin 5 has risen once with this redirection entry.
fn reached(chip: &mut Chip, low: u32, destination: u8) -> Vec<usize> {
    chip.destination(5, destination);
    chip.entry(5, low);
    chip.line(5, true);
    chip.line(5, false);
    let lapics = chip.parts.lapics.iter().enumerate();
    let pending = lapics.filter(|(_, lapic)| lapic.next_interrupt() == Some((low & 0xff) as u8));
    pending.map(|(vcpu, _)| vcpu).collect()
}

/// Makes an irqchip whose two vCPUs have the flat logical destinations bit 0 and bit 1.
fn logical() -> Chip {
    let chip = Chip::full();
    for lapic in &chip.parts.lapics {
        let _ = lapic.write(Register::Ldr, 1 << (24 + lapic.id()));
    }
    chip
}

#[test]
fn entry_sends_to_the_apic_that_its_destination_names() {
    for (destination, vcpus) in [(0, vec![0]), (1, vec![1]), (2, vec![]), (0xff, vec![0, 1])] {
        let mut chip = Chip::full();
        let reached = reached(&mut chip, 0x41, destination);
        assert_eq!(reached, vcpus, "destination {destination}");
    }
}

#[test]
fn destination_that_changes_is_where_the_next_rise_goes() {
    let mut chip = Chip::full();
    assert_eq!(reached(&mut chip, 0x41, 1), [1]);
    assert_eq!(reached(&mut chip, 0x51, 0), [0]);
    assert_eq!(chip.read(0x11 + 2 * 5), 0);
    chip.destination(5, 0x81);
    assert_eq!(chip.read(0x11 + 2 * 5), 0x8100_0000);
    assert_eq!(chip.read(0x10 + 2 * 5), 0x51, "the other half is as it was");
}

#[test]
fn logical_entry_sends_to_those_whose_logical_destination_it_meets() {
    for (destination, vcpus) in [
        (0b01, vec![0]),
        (0b10, vec![1]),
        (0b11, vec![0, 1]),
        (4, vec![]),
    ] {
        let reached = reached(&mut logical(), LOGICAL | 0x41, destination);
        assert_eq!(reached, vcpus, "destination {destination:#b}");
    }
    // Without the logical bit the same number is an APIC ID.
    assert_eq!(reached(&mut logical(), 0x41, 1), [1]);
}

#[test]
fn lowest_priority_entry_sends_to_the_least_busy_one_only() {
    for least_busy in [0, 1] {
        let mut chip = logical();
        let _ = chip.parts.lapics[1 - least_busy].write(Register::Tpr, 0x20);
        let low = LOWEST_PRIORITY | LOGICAL | 0x41;
        assert_eq!(reached(&mut chip, low, 0b11), [least_busy]);
    }
    assert_eq!(
        reached(&mut logical(), LOGICAL | 0x41, 0b11),
        [0, 1],
        "fixed"
    );
}

#[test]
fn entry_whose_delivery_mode_is_no_interrupt_sends_nothing() {
    for mode in 2..8 {
        let mut chip = Chip::full();
        let low = LEVEL | mode << 8 | 0x41;
        assert_eq!(reached(&mut chip, low, 0), [0; 0], "mode {mode}");
        chip.line(5, true);
        assert_eq!(
            chip.read(0x10 + 2 * 5) & REMOTE_IRR,
            0,
            "no local apic took it"
        );
    }
}
