//! The bits of a write that each register of the local APIC keeps, and the value that it reads as (SDM volume
//! 3, "Local APIC Register Address Map"; Linux `kvm_lapic_reg_read`, `kvm_lapic_reg_write`).

use vmbell_core::lapic::{Effect, Lapic, MMIO_BASE, Raise, Register};

use super::lapic;

const ID: u64 = 0x020;
const TPR: u64 = 0x080;
const APR: u64 = 0x090;
const PPR: u64 = 0x0a0;
const LDR: u64 = 0x0d0;
const DFR: u64 = 0x0e0;
const SVR: u64 = 0x0f0;
const ISR: u64 = 0x100;
const TMR: u64 = 0x180;
const IRR: u64 = 0x200;
const ESR: u64 = 0x280;
const ICR: u64 = 0x300;
const ICR_HIGH: u64 = 0x310;

fn read(lapic: &Lapic, offset: u64) -> u32 {
    lapic.read_mmio(offset, 4)
}

#[test]
fn register_keeps_the_bits_that_it_has() {
    let lapic = lapic(0);
    for (offset, written, kept) in [
        (TPR, u32::MAX, 0xff),
        (LDR, u32::MAX, 0xff00_0000),
        (LDR, 0x1234_5678, 0x1200_0000),
        (DFR, 0, 0x0fff_ffff),
        (DFR, u32::MAX, u32::MAX),
        (SVR, u32::MAX, 0x3ff),
        (SVR, 0x1ff, 0x1ff),
        (ICR_HIGH, u32::MAX, 0xff00_0000),
        (ICR_HIGH, 0x1234_5678, 0x1200_0000),
    ] {
        assert_eq!(lapic.write_mmio(offset, 4, written), Effect::None);
        assert_eq!(
            read(&lapic, offset),
            kept,
            "{written:#x} written to {offset:#x}"
        );
    }
}

#[test]
fn command_reads_as_it_was_written_and_as_sent() {
    const BUSY: u32 = 1 << 12;
    let lapic = lapic(0);
    for command in [0x4_0041, 0x0841, 0xc_4141] {
        let effect = lapic.write_mmio(ICR, 4, BUSY | command);
        assert!(matches!(effect, Effect::Ipi(_)), "{command:#x}");
        assert_eq!(read(&lapic, ICR), command);
    }
}

#[test]
fn read_only_register_ignores_a_write() {
    let lapic = lapic(3);
    assert_eq!(lapic.raise(0x31, true), Raise::Accepted);
    assert!(lapic.start_service(0x31));
    assert_eq!(lapic.raise(0x41, true), Raise::Accepted);
    let words = (0..8).map(|word| 0x10 * word);
    let sets = words.flat_map(|word| [ISR + word, TMR + word, IRR + word]);
    for offset in sets.chain([ID, 0x030, APR, PPR]) {
        let before = read(&lapic, offset);
        for value in [0, u32::MAX] {
            assert_eq!(lapic.write_mmio(offset, 4, value), Effect::None);
            assert_eq!(read(&lapic, offset), before, "{offset:#x}");
        }
    }
}

#[test]
fn both_priorities_read_as_the_processors() {
    let lapic = lapic(0);
    let _ = lapic.write_mmio(TPR, 4, 0x25);
    assert_eq!((read(&lapic, APR), read(&lapic, PPR)), (0x25, 0x25));
    let _ = lapic.raise(0x52, false);
    assert!(lapic.start_service(0x52));
    assert_eq!((read(&lapic, APR), read(&lapic, PPR)), (0x50, 0x50));
    assert_eq!(read(&lapic, TPR), 0x25);
}

#[test]
#[cfg_attr(miri, ignore = "all vectors take half a minute")]
fn each_vector_has_its_bit_in_three_registers() {
    for vector in 16..=u8::MAX {
        let lapic = lapic(0);
        let word = u64::from(vector / 32) * 0x10;
        let bit = 1 << (vector % 32);
        let has = |set: u64| {
            let others = (0..8)
                .map(|word| 0x10 * word)
                .filter(|other| *other != word);
            let others: u32 = others.map(|other| read(&lapic, set + other)).sum();
            assert_eq!(others, 0, "{vector:#x} shows at another register");
            read(&lapic, set + word) == bit
        };
        assert_eq!(lapic.raise(vector, true), Raise::Accepted);
        assert!(has(IRR) && has(TMR) && !has(ISR), "{vector:#x}");
        assert_eq!(lapic.next_interrupt(), Some(vector));
        assert!(lapic.start_service(vector));
        assert!(!has(IRR) && has(TMR) && has(ISR), "{vector:#x}");
        assert_eq!(lapic.newest_in_service(), Some(vector));
    }
}

#[test]
fn part_of_a_register_reads_as_those_bytes() {
    let lapic = lapic(0x5a);
    for (at, len, value) in [
        (3, 1, 0x5a),
        (2, 1, 0),
        (2, 2, 0x5a00),
        (0, 2, 0),
        (0, 4, 0x5a00_0000),
    ] {
        assert_eq!(lapic.read_mmio(ID + at, len), value, "{len} bytes at {at}");
    }
    let _ = lapic.write_mmio(SVR, 4, 0x1c3);
    for (at, len, value) in [(0, 1, 0xc3), (1, 1, 0x01), (0, 2, 0x1c3), (1, 2, 1)] {
        assert_eq!(lapic.read_mmio(SVR + at, len), value, "{len} bytes at {at}");
    }
}

#[test]
fn load_that_leaves_the_register_or_has_an_odd_size_reads_as_0() {
    let lapic = lapic(u32::MAX >> 24);
    let _ = lapic.write_mmio(TPR, 4, 0xff);
    for (at, len) in [(3, 2), (1, 4), (0, 8), (0, 3), (0, 0), (4, 1), (8, 4)] {
        assert_eq!(lapic.read_mmio(TPR + at, len), 0, "{len} bytes at {at}");
        assert_eq!(lapic.read_mmio(ID + at, len), 0, "{len} bytes at {at}");
    }
}

#[test]
fn reset_has_the_registers_of_power_on() {
    let lapic = lapic(2);
    let _ = lapic.raise(3, false);
    for (offset, value) in [
        (ESR, 0),
        (TPR, 0x20),
        (LDR, 1 << 24),
        (DFR, 0),
        (ICR_HIGH, 1 << 24),
        (ICR, 0x41),
    ] {
        let _ = lapic.write_mmio(offset, 4, value);
    }
    let _ = lapic.raise(3, false);
    lapic.reset(2);
    for (offset, value) in [
        (ID, 2 << 24),
        (TPR, 0),
        (LDR, 0),
        (DFR, u32::MAX),
        (SVR, 0xff),
        (ESR, 0),
        (ICR, 0),
        (ICR_HIGH, 0),
    ] {
        assert_eq!(read(&lapic, offset), value, "{offset:#x}");
    }
    let _ = lapic.write_mmio(ESR, 4, 0);
    assert_eq!(read(&lapic, ESR), 0, "errors of before");
}

#[test]
fn reset_leaves_x2apic_mode() {
    let lapic = lapic(2);
    assert_eq!(lapic.write_base(MMIO_BASE | 0xc00), Effect::None);
    assert!(lapic.is_x2apic() && lapic.is_enabled());
    lapic.reset(2);
    assert!(lapic.is_xapic() && !lapic.is_x2apic() && !lapic.is_enabled());
}

#[test]
fn boot_processor_is_the_one_whose_id_is_0() {
    for (id, boot) in [(0, 0x100), (1, 0), (255, 0)] {
        let lapic = lapic(id);
        assert_eq!(lapic.read_base(), MMIO_BASE | 0x800 | boot);
    }
}

#[test]
fn apic_that_is_switched_off_takes_nothing_whatever_its_software_says() {
    let lapic = lapic(0);
    assert_eq!(lapic.write_base(MMIO_BASE), Effect::None);
    let _ = lapic.write(Register::Svr, 0x1ff);
    assert_eq!(lapic.raise(0x31, false), Raise::Refused);
    assert!(!lapic.is_xapic() && !lapic.is_x2apic());
}

#[test]
fn x2apic_reads_its_whole_id_and_its_version() {
    let lapic = lapic(0x1234);
    assert_eq!(lapic.write_base(MMIO_BASE | 0xc00), Effect::None);
    assert_eq!(lapic.read_msr(0x802), Some(0x1234));
    assert_eq!(lapic.read_msr(0x803), Some(0x14));
    assert_eq!(lapic.read_msr(0x80d), Some(0x123 << 16 | 1 << 4));
    assert_eq!(lapic.read_msr(0x80f), Some(0x1ff));
}

#[test]
fn x2apic_mode_that_is_asked_for_twice_keeps_what_is_pending() {
    let lapic = lapic(0);
    assert_eq!(lapic.write_base(MMIO_BASE | 0xc00), Effect::None);
    assert_eq!(lapic.raise(0x31, false), Raise::Accepted);
    assert_eq!(lapic.write_base(MMIO_BASE | 0xc00), Effect::None);
    assert_eq!(lapic.next_interrupt(), Some(0x31));
}
