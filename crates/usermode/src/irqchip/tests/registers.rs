//! The two interfaces to the registers, xAPIC and x2APIC, and the switch between them.

use vmbell_core::lapic::{
    Destination, Effect, Eoi, Lapic, MMIO_BASE, MSR_BASE, Message, Mode, Register,
};

use super::lapic;

const X2APIC: u64 = MMIO_BASE | 0xc00;

fn x2apic(id: u32) -> Lapic {
    let lapic = lapic(id);
    assert_eq!(lapic.write_base(X2APIC), Effect::None);
    lapic
}

fn ipi(vector: u8, destination: Destination) -> Effect {
    Effect::Ipi(Message {
        vector,
        mode: Mode::Fixed,
        level: false,
        destination,
    })
}

#[test]
fn page_has_its_registers_every_sixteen_bytes() {
    let lapic = lapic(5);
    assert_eq!(lapic.read_mmio(0x020, 4), 5 << 24);
    assert_eq!(lapic.read_mmio(0x030, 4), 0x14);
    assert_eq!(lapic.write_mmio(0x080, 4, 0x20), Effect::None);
    assert_eq!(lapic.read_mmio(0x080, 4), 0x20);
    let _ = lapic.raise(0x61, false);
    assert_eq!(lapic.read_mmio(0x230, 4), 2);
    assert!(lapic.start_service(0x61));
    assert_eq!(lapic.read_mmio(0x130, 4), 2);
    let eoi = Eoi {
        vector: 0x61,
        level: false,
    };
    assert_eq!(lapic.write_mmio(0x0b0, 4, 0), Effect::Eoi(eoi));
}

#[test]
fn page_takes_aligned_words_only() {
    let lapic = lapic(0);
    for (offset, len) in [(0x080, 1), (0x080, 2), (0x080, 8), (0x084, 4), (0x081, 4)] {
        assert_eq!(lapic.write_mmio(offset, len, 0x50), Effect::None);
    }
    assert_eq!(lapic.read(Register::Tpr), 0);
    let _ = lapic.write_mmio(0x080, 4, 0x5a);
    assert_eq!(lapic.read_mmio(0x080, 1), 0x5a);
    assert_eq!(lapic.read_mmio(0x082, 4), 0);
}

#[test]
fn register_that_is_not_there_reads_as_0_and_is_noted() {
    let lapic = lapic(0);
    for offset in [0x000, 0x010, 0x040, 0x320, 0x390, 0x3f0, 0xff0] {
        assert_eq!(lapic.read_mmio(offset, 4), 0);
        assert_eq!(lapic.write_mmio(offset, 4, u32::MAX), Effect::None);
    }
    let _ = lapic.write_mmio(0x280, 4, 0);
    assert_eq!(lapic.read_mmio(0x280, 4), 1 << 7);
}

#[test]
fn msrs_are_there_in_x2apic_mode_only() {
    let lapic = lapic(3);
    assert_eq!(lapic.read_msr(0x802), None);
    assert_eq!(lapic.write_msr(0x80b, 0), Effect::Fault);
    assert_eq!(lapic.write_base(X2APIC), Effect::None);
    assert!(lapic.is_x2apic() && !lapic.is_xapic());
    assert_eq!(lapic.read_msr(0x802), Some(3));
    assert_eq!(lapic.write_msr(0x80b, 0), Effect::None);
    assert_eq!(lapic.write_msr(0x808, 0xff), Effect::None);
    assert_eq!(lapic.read_msr(0x808), Some(0xff));
}

#[test]
fn x2apic_faults_on_every_register_that_is_reserved_or_read_only() {
    let lapic = x2apic(0);
    let writable = [0x808, 0x80b, 0x80f, 0x828, 0x83f];
    for index in 0x800..0x900 {
        // The interrupt command register takes 0 as an IPI with vector 0.
        if index == 0x830 {
            continue;
        }
        let faults = lapic.write_msr(index, 0) == Effect::Fault;
        assert_eq!(faults, !writable.contains(&index), "{index:#x}");
    }
    for index in [
        0x809, 0x80b, 0x80e, 0x831, 0x832, 0x838, 0x83f, 0x840, 0x8ff,
    ] {
        assert_eq!(lapic.read_msr(index), None, "{index:#x}");
    }
    for index in [MSR_BASE - 1, MSR_BASE + 0x100, 0, u32::MAX] {
        assert_eq!(lapic.read_msr(index), None);
        assert_eq!(lapic.write_msr(index, 0), Effect::Fault);
    }
}

#[test]
fn x2apic_faults_on_reserved_bits() {
    let lapic = x2apic(0);
    for (index, value) in [
        (0x80b, 1),
        (0x828, 1),
        (0x808, 0x100),
        (0x808, 1 << 32),
        (0x80f, 1 << 10),
        (0x80f, 1 << 32),
        (0x83f, 0x100),
        (0x830, 1 << 13 | 0x40),
        (0x830, 1 << 16 | 0x40),
        (0x830, 1 << 20 | 0x40),
    ] {
        assert_eq!(
            lapic.write_msr(index, value),
            Effect::Fault,
            "{index:#x} {value:#x}"
        );
    }
}

#[test]
fn x2apic_command_has_a_destination_of_32_bits() {
    let lapic = x2apic(1);
    let command = 0x1_2345 << 32 | 0x41;
    let effect = lapic.write_msr(0x830, command);
    assert_eq!(effect, ipi(0x41, Destination::Physical(0x1_2345)));
    assert_eq!(lapic.read_msr(0x830), Some(command));
    for logical in [0, 1 << 11] {
        let all = 0xffff_ffff << 32 | logical | 0x41;
        assert_eq!(lapic.write_msr(0x830, all), ipi(0x41, Destination::All));
    }
    let cluster = 0x1_2345 << 32 | 1 << 11 | 0x41;
    let effect = lapic.write_msr(0x830, cluster);
    assert_eq!(effect, ipi(0x41, Destination::Logical(0x1_2345)));
    let one = 0xff << 32 | 0x41;
    let effect = lapic.write_msr(0x830, one);
    assert_eq!(effect, ipi(0x41, Destination::Physical(0xff)));
}

#[test]
fn xapic_command_is_sent_by_its_low_half() {
    let lapic = lapic(1);
    assert_eq!(lapic.write_mmio(0x310, 4, 2 << 24), Effect::None);
    let effect = lapic.write_mmio(0x300, 4, 0x42);
    assert_eq!(effect, ipi(0x42, Destination::Physical(2)));
    let logical = lapic.write_mmio(0x300, 4, 0x42 | 1 << 11);
    assert_eq!(logical, ipi(0x42, Destination::Logical(2)));
    let _ = lapic.write_mmio(0x310, 4, 0xff << 24);
    let all = lapic.write_mmio(0x300, 4, 0x42);
    assert_eq!(all, ipi(0x42, Destination::All));
    let logical = lapic.write_mmio(0x300, 4, 0x42 | 1 << 11);
    assert_eq!(logical, ipi(0x42, Destination::Logical(0xff)));
}

#[test]
fn command_says_vector_and_delivery_mode() {
    let lapic = lapic(1);
    for vector in [0x10, 0x42, 0xff] {
        for (bits, mode) in [(0, Mode::Fixed), (1, Mode::LowestPriority)] {
            let effect = lapic.write_mmio(0x300, 4, bits << 8 | vector);
            let Effect::Ipi(message) = effect else {
                panic!("{effect:?}");
            };
            assert_eq!((u32::from(message.vector), message.mode), (vector, mode));
        }
    }
}

#[test]
fn shorthands_are_oneself_all_and_all_others() {
    let lapic = lapic(6);
    for (shorthand, destination) in [
        (1, Destination::Physical(6)),
        (2, Destination::All),
        (3, Destination::AllBut(6)),
    ] {
        let effect = lapic.write_mmio(0x300, 4, shorthand << 18 | 0x42);
        assert_eq!(effect, ipi(0x42, destination));
    }
}

#[test]
fn self_ipi_goes_to_oneself() {
    let lapic = x2apic(9);
    let effect = lapic.write_msr(0x83f, 0x77);
    assert_eq!(effect, ipi(0x77, Destination::Physical(9)));
}

#[test]
fn ipi_with_a_vector_below_16_is_not_sent_and_noted() {
    let lapic = x2apic(0);
    assert_eq!(lapic.write_msr(0x83f, 15), Effect::None);
    assert_eq!(lapic.write_msr(0x830, 3), Effect::None);
    let _ = lapic.write_msr(0x828, 0);
    assert_eq!(lapic.read_msr(0x828), Some(1 << 5));
}

#[test]
fn delivery_mode_that_is_no_interrupt_faults() {
    let lapic = x2apic(0);
    for mode in 2..8 {
        assert_eq!(lapic.write_msr(0x830, mode << 8 | 0x40), Effect::Fault);
    }
}

#[test]
fn base_register_changes_modes_as_the_state_diagram_has_it() {
    const OFF: u64 = MMIO_BASE;
    const XAPIC: u64 = MMIO_BASE | 0x800;
    const INVALID: u64 = MMIO_BASE | 0x400;
    for (from, to, good) in [
        (XAPIC, X2APIC, true),
        (XAPIC, OFF, true),
        (XAPIC, INVALID, false),
        (X2APIC, XAPIC, false),
        (X2APIC, OFF, true),
        (X2APIC, INVALID, false),
        (OFF, XAPIC, true),
        (OFF, X2APIC, false),
        (OFF, INVALID, false),
        (XAPIC, XAPIC | 0x1000, false),
    ] {
        let lapic = lapic(0);
        assert_eq!(lapic.write_base(from), Effect::None);
        let effect = lapic.write_base(to);
        assert_eq!(effect == Effect::None, good, "{from:#x} -> {to:#x}");
        let now = if good { to } else { from };
        assert_eq!(lapic.read_base(), now | 0x100);
    }
}

#[test]
fn switching_off_forgets_what_was_pending() {
    let lapic = lapic(0);
    let _ = lapic.raise(0x31, false);
    assert_eq!(lapic.write_base(MMIO_BASE), Effect::None);
    assert_eq!(lapic.next_interrupt(), None);
    assert!(!lapic.is_enabled());
}
