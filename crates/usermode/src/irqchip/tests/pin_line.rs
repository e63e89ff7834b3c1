//! Pins and lines as both sides drive them: which resamplefds are signalled, which thread sends, and what happens if
//! another thread interferes.

use std::cell::Cell;

use vmbell_core::ioapic::{Line, PIN_RESAMPLEFDS, Pin, PinLine, RedirectionEntry, Source};

use super::chip::{Chip, LEVEL};

const VECTOR: u8 = 0x41;

fn level_pin() -> Pin {
    let pin = Pin::default();
    pin.program(RedirectionEntry(u64::from(LEVEL) | u64::from(VECTOR)));
    pin
}

fn pin_line<'w>(pin: &'w Pin, line: &'w Line) -> PinLine<'w> {
    PinLine { pin, line }
}

fn resamplefds(pin: &Pin) -> Vec<u32> {
    pin.resamplefds().collect()
}

#[test]
fn resamplefd_that_stays_keeps_its_place() {
    let pin = Pin::default();
    assert!(!pin.is_resampled());
    pin.set_resamplefds(&[16, 17, 18]);
    assert_eq!(resamplefds(&pin), [16, 17, 18]);
    // An EOI that has already read the first slot still finds both others.
    pin.set_resamplefds(&[17, 18]);
    assert_eq!(resamplefds(&pin), [17, 18]);
    pin.set_resamplefds(&[17, 18, 19]);
    assert_eq!(resamplefds(&pin), [19, 17, 18]);
    pin.set_resamplefds(&[]);
    assert!(!pin.is_resampled());
}

#[test]
fn pin_with_more_resamplefds_than_places_leaves_its_eoi_to_the_monitor_until_it_has_fewer() {
    let pin = Pin::default();
    let all: Vec<u32> = (16..).take(PIN_RESAMPLEFDS + 1).collect();
    pin.set_resamplefds(&all[..PIN_RESAMPLEFDS]);
    assert!(!pin.needs_monitor_eoi());
    pin.set_resamplefds(&all);
    assert!(pin.needs_monitor_eoi() && pin.is_resampled());
    pin.set_resamplefds(&all[1..]);
    assert!(!pin.needs_monitor_eoi());
    let mut left = resamplefds(&pin);
    left.sort_unstable();
    assert_eq!(left, all[1..]);
}

#[test]
#[cfg_attr(miri, ignore = "more than eight resamplefds take a minute")]
fn pin_whose_eoi_the_monitor_does_acks_each_resampler_once() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | u32::from(VECTOR));
    let fds = 1..=PIN_RESAMPLEFDS as u64 + 2;
    let counters: Vec<_> = fds.clone().map(|fd| chip.resampling(fd, 5)).collect();
    for round in 1..=3 {
        chip.signal(1);
        assert_eq!(chip.serve(), Some(VECTOR));
        for counter in &counters {
            assert_eq!(counter.get(), round);
        }
    }
    // Once the pin has few enough resamplefds, the stub signals them itself.
    for fd in fds.skip(2) {
        assert!(chip.remove(fd, 5));
    }
    chip.signal(2);
    assert_eq!(chip.serve(), Some(VECTOR));
    let counts: Vec<_> = counters.iter().map(|counter| counter.get()).collect();
    assert_eq!(counts[..3], [4, 4, 3]);
}

#[test]
fn line_whose_eoi_the_monitor_does_is_sent_again_while_a_device_holds_it() {
    let mut chip = Chip::full();
    chip.entry(5, LEVEL | u32::from(VECTOR));
    let counters: Vec<_> = (1..=PIN_RESAMPLEFDS as u64 + 1)
        .map(|fd| chip.resampling(fd, 5))
        .collect();
    chip.line(5, true);
    for round in 1..=2 {
        assert_eq!(chip.serve(), Some(VECTOR));
        assert_eq!(counters[0].get(), round);
    }
    assert_eq!(chip.begin(), Some(VECTOR));
    chip.line(5, false);
    chip.end();
    assert_eq!(chip.begin(), None);
}

#[test]
fn line_that_was_driven_while_nobody_took_it_is_sent_by_the_one_who_tried() {
    let (pin, line) = (level_pin(), Line::default());
    let pin_line = pin_line(&pin, &line);
    let tries = Cell::new(0);
    pin_line.drive(Source::User, true, |_| {
        tries.set(tries.get() + 1);
        if tries.get() == 1 {
            // A second call for a line that is already up sees remote IRR and leaves the sending to the first
            // call.
            pin_line.drive(Source::User, true, |_| panic!("it waits for an EOI"));
        }
        tries.get() > 1
    });
    assert_eq!(tries.get(), 2);
    assert!(line.has_remote_irr());
}

#[test]
fn line_that_nobody_takes_is_tried_once_and_does_not_wait() {
    let (pin, line) = (level_pin(), Line::default());
    let pin_line = pin_line(&pin, &line);
    let tries = Cell::new(0);
    let refuse = |_| {
        tries.set(tries.get() + 1);
        false
    };
    assert!(!line.is_up());
    pin_line.drive(Source::User, true, refuse);
    assert_eq!(tries.get(), 1);
    assert!(line.is_up() && !line.has_remote_irr());
    pin_line.drive(Source::User, true, refuse);
    assert_eq!(tries.get(), 2, "an APIC may take it by now");
}

#[test]
fn line_that_changes_all_the_time_is_not_waited_for() {
    let (pin, line) = (level_pin(), Line::default());
    let pin_line = pin_line(&pin, &line);
    let tries = Cell::new(0_u32);
    pin_line.drive(Source::User, true, |_| {
        tries.set(tries.get() + 1);
        pin_line.drive(Source::Resample, true, |_| true);
        false
    });
    assert!(tries.get() <= 64, "{}", tries.get());
}
