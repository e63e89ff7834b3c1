//! Resampled lines and the signals to their resamplefds at an ack.

use super::chip::{Chip, IOWIN, LEVEL, MASKED, resampler};
use vmbell::irq::IrqError;

#[test]
fn resampled_line_goes_down_once_and_every_resamplefd_is_signalled_once() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    let (one, two) = (chip.resampling(1, 5), chip.resampling(2, 5));
    chip.signal(1);
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!((one.get(), two.get()), (1, 1));
    assert_eq!(chip.begin(), None, "both have to signal again");
    chip.signal(2);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!((one.get(), two.get()), (2, 2));
}

#[test]
fn line_that_a_device_holds_beside_a_resampled_one_stays_up() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    let resample = chip.resampling(1, 5);
    chip.line(5, true);
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!(resample.get(), 1);
    assert_eq!(chip.begin(), Some(0x41), "the device holds it still");
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn last_resampler_that_goes_takes_the_line_down() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | MASKED | 0x41);
    let _one = chip.resampling(1, 5);
    let _two = chip.resampling(2, 5);
    chip.signal(1);
    assert!(chip.remove(1, 5));
    assert!(chip.remove(2, 5));
    chip.entry(5, LEVEL | 0x41);
    assert_eq!(chip.begin(), None);
}

#[test]
fn pending_line_that_is_unmasked_is_resampled_instead_of_sent() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | MASKED | 0x41);
    let resample = chip.resampling(1, 5);
    chip.signal(1);
    chip.entry(5, LEVEL | 0x41);
    assert_eq!(resample.get(), 1);
    assert_eq!(chip.begin(), None);
    chip.signal(1);
    assert_eq!(chip.serve(), Some(0x41));
}

#[test]
fn resampling_needs_an_ioapic() {
    let mut chip = Chip::split();
    let assigned = chip.assign(1, 5, Some(resampler(1)));
    assert!(matches!(assigned, Err(IrqError::NoResample)));
    assert_eq!(chip.load(IOWIN), None);
    chip.irqfd(1, 5).unwrap();
}
