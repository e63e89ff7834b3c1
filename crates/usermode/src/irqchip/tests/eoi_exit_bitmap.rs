//! The EOI exit bitmap: which vectors are in it, and that paravirtual EOI does not defer their EOIs.

use vmbell_core::pv_eoi::PvEoi;

use super::chip::{Chip, LEVEL, MASKED};
use super::guest::{WORD, Word, vectors};
use vmbell::irq::{Msi, Target};

/// Returns a level-triggered message to APIC `id`.
fn level_message(id: u64, vector: u32) -> Target {
    Target::Msi(Msi {
        address: 0xfee0_0000 | id << 12,
        data: 0x8000 | vector,
        device: None,
    })
}

#[test]
fn eoi_exit_bitmap_has_levels_resampled_pins_and_the_clock() {
    let mut chip = Chip::full();
    chip.entry(4, 0x41);
    chip.entry(5, LEVEL | 0x51);
    chip.entry(6, 0x61);
    chip.entry(8, 0x71);
    let bitmap = |chip: &Chip, vcpu: usize| vectors(&chip.parts.lapics[vcpu].eoi_exit_bitmap);
    assert_eq!(bitmap(&chip, 0), [0x51, 0x71]);
    assert_eq!(bitmap(&chip, 1), [0; 0]);
    let _resample = chip.resampling(1, 6);
    assert_eq!(bitmap(&chip, 0), [0x51, 0x61, 0x71]);
    assert!(chip.remove(1, 6));
    chip.route(&[(30, level_message(1, 0x45))]).unwrap();
    assert_eq!(bitmap(&chip, 0), [0x51, 0x71]);
    assert_eq!(bitmap(&chip, 1), [0x45]);
}

#[test]
fn vector_under_way_stays_in_the_eoi_exit_bitmap_until_its_end() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x51);
    chip.line(5, true);
    assert_eq!(chip.begin(), Some(0x51));
    chip.entry(5, LEVEL | MASKED | 0x61);
    assert!(chip.parts.lapics[0].eoi_exit_bitmap.contains(0x51));
    let _ = chip.parts.lapics[0].eoi();
    chip.entry(5, LEVEL | MASKED | 0x61);
    assert!(!chip.parts.lapics[0].eoi_exit_bitmap.contains(0x51));
}

/// Returns whether paravirtual EOI would spare the guest the EOI of the interrupt that `raise` raises.
fn is_spared(chip: &mut Chip, raise: impl FnOnce(&mut Chip), vector: u8) -> bool {
    let (pv_eoi, word) = (PvEoi::default(), Word::default());
    pv_eoi.write_msr(WORD | 1, |_| true).unwrap();
    raise(chip);
    assert_eq!(chip.begin(), Some(vector));
    let armed = pv_eoi.arm(&chip.parts.lapics[0], &word);
    assert_eq!(word.byte.get(), u8::from(armed));
    let _ = pv_eoi.complete(&chip.parts.lapics[0], &word);
    chip.end();
    armed
}

#[test]
fn eoi_of_a_vector_in_the_eoi_exit_bitmap_is_never_spared() {
    let mut chip = Chip::full();
    chip.entry(4, 0x41);
    chip.entry(5, LEVEL | 0x51);
    chip.entry(6, 0x61);
    chip.entry(8, 0x71);
    let edge = |pin| {
        move |chip: &mut Chip| {
            chip.line(pin, true);
            chip.line(pin, false);
        }
    };
    assert!(is_spared(&mut chip, edge(4), 0x41));
    assert!(!is_spared(&mut chip, edge(5), 0x51), "level pin");
    assert!(!is_spared(&mut chip, edge(8), 0x71), "the clock's");
    assert!(is_spared(&mut chip, edge(6), 0x61));
    let resample = chip.resampling(1, 6);
    let signal = |chip: &mut Chip| chip.signal(1);
    assert!(!is_spared(&mut chip, signal, 0x61), "resampled");
    assert_eq!(resample.get(), 1);
    assert!(chip.remove(1, 6));
    assert!(is_spared(&mut chip, edge(6), 0x61));
    chip.route(&[(30, level_message(0, 0x81))]).unwrap();
    assert!(!is_spared(&mut chip, edge(30), 0x81), "level message");
}
