//! The sources that hold a line up, and the events that release it (Linux `kvm_set_irq` with its source IDs,
//! `irqfd_resampler_shutdown`).

use super::chip::{Chip, LEVEL, MASKED, event, gsi};
use vmbell::irq::{Msi, Target};

/// Makes an irqchip whose GSIs 5 and 6 lead to pin 5, which is level-triggered.
fn shared_pin() -> Chip {
    let mut chip = Chip::full();
    chip.route(&[(5, Target::Pin(5)), (6, Target::Pin(5))])
        .unwrap();
    chip.entry(5, LEVEL | MASKED | 0x41);
    chip
}

/// Returns whether the line of pin 5 is up: if so, unmasking the pin signals its resamplefds.
fn is_up(chip: &mut Chip) -> bool {
    chip.entry(5, LEVEL | MASKED | 0x41);
    let resample = chip.resampling(99, 5);
    chip.entry(5, LEVEL | 0x41);
    resample.get() == 1
}

#[test]
fn line_that_its_device_raises_twice_is_up_until_it_lowers_it_once() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    chip.line(5, true);
    assert_eq!(chip.serve(), Some(0x41));
    assert_eq!(chip.serve(), Some(0x41), "it is up still");
    assert_eq!(chip.begin(), Some(0x41));
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn line_that_nobody_took_is_offered_again_when_its_device_raises_it_again() {
    let mut chip = Chip::full();
    chip.destination(5, 7);
    chip.entry(5, LEVEL | 0x41);
    chip.line(5, true);
    assert_eq!(chip.begin(), None, "there is no apic 7");
    chip.destination(5, 0);
    assert_eq!(chip.serve(), Some(0x41));
}

#[test]
fn edge_irqfd_that_goes_leaves_the_line_that_another_one_holds() {
    let mut chip = shared_pin();
    let _resample = chip.resampling(1, 6);
    chip.irqfd(2, 5).unwrap();
    chip.signal(1);
    assert!(chip.remove(2, 5));
    assert!(is_up(&mut chip));
}

#[test]
fn irqfd_that_is_removed_by_a_wrong_gsi_holds_its_line() {
    let mut chip = shared_pin();
    let _resample = chip.resampling(1, 6);
    chip.signal(1);
    assert!(!chip.remove(1, 5));
    assert!(is_up(&mut chip));
    assert!(chip.remove(1, 6));
}

/// The rule of Linux `ioapic_write_indirect`: no resampling while the pin is masked or before the EOI.
#[test]
fn write_resamples_a_line_only_if_it_could_be_sent() {
    let mut chip = Chip::full();
    let resample = chip.resampling(1, 5);
    chip.entry(5, LEVEL | 0x41);
    chip.signal(1);
    assert_eq!(chip.begin(), Some(0x41));
    chip.entry(5, LEVEL | 0x41);
    chip.destination(5, 0);
    assert_eq!(resample.get(), 0, "its eoi will ask");
    chip.end();
    assert_eq!(resample.get(), 1);
    chip.entry(5, LEVEL | MASKED | 0x41);
    chip.signal(1);
    chip.entry(5, LEVEL | MASKED | 0x51);
    chip.destination(5, 0);
    assert_eq!(resample.get(), 1, "masked");
    chip.entry(5, LEVEL | 0x51);
    assert_eq!(resample.get(), 2);
}

#[test]
fn eventfd_is_an_irqfd_from_assignment_to_removal() {
    let mut chip = Chip::full();
    assert!(!chip.controller().is_assigned(event(1)));
    chip.irqfd(1, 5).unwrap();
    assert!(chip.controller().is_assigned(event(1)));
    assert!(!chip.controller().is_assigned(event(2)));
    assert!(chip.remove(1, 5));
    assert!(!chip.controller().is_assigned(event(1)));
}

#[test]
fn message_is_sent_on_the_way_up_only() {
    let mut chip = Chip::split();
    chip.route(&[(24, Target::Msi(Msi::fixed(0, 0x45)))])
        .unwrap();
    chip.line(24, true);
    assert_eq!(chip.serve(), Some(0x45));
    chip.line(24, false);
    assert_eq!(chip.serve(), None);
}

#[test]
fn gsi_has_the_number_that_it_was_made_of() {
    for number in [0, 24, 4095] {
        assert_eq!(gsi(number).number(), number);
    }
}
