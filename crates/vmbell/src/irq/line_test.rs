use std::cell::RefCell;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// A line that logs the levels that it is driven to, in order.
fn record(log: &RefCell<Vec<bool>>) -> Arc<LevelLine<impl Fn(bool) -> Result<(), Infallible>>> {
    LevelLine::new(|up| {
        log.borrow_mut().push(up);
        Ok(())
    })
}

#[test]
fn line_is_up_from_the_first_assert_to_the_last_deassert() {
    let log = RefCell::default();
    let line = record(&log);
    let (mut one, mut two) = (line.connect(), line.connect());
    one.assert().unwrap();
    two.assert().unwrap();
    one.deassert().unwrap();
    assert!(line.is_up());
    assert_eq!(*log.borrow(), [true]);
    two.deassert().unwrap();
    assert_eq!(*log.borrow(), [true, false]);
}

#[test]
fn device_that_asserts_twice_holds_once() {
    let log = RefCell::default();
    let line = record(&log);
    let mut device = line.connect();
    device.assert().unwrap();
    device.assert().unwrap();
    device.deassert().unwrap();
    assert!(!line.is_up());
    device.deassert().unwrap();
    assert_eq!(*log.borrow(), [true, false]);
}

#[test]
fn device_that_goes_away_lets_go() {
    let log = RefCell::default();
    let line = record(&log);
    let mut device = line.connect();
    device.assert().unwrap();
    drop(device);
    assert_eq!(*log.borrow(), [true, false]);
}

#[test]
fn line_that_could_not_be_driven_is_where_it_was() {
    let broken = RefCell::new(true);
    let line = LevelLine::new(|_| if *broken.borrow() { Err(()) } else { Ok(()) });
    let mut device = line.connect();
    assert_eq!(device.assert(), Err(()));
    assert!(!line.is_up());
    broken.replace(false);
    assert_eq!(device.assert(), Ok(()));
    broken.replace(true);
    assert_eq!(device.deassert(), Err(()));
    assert!(line.is_up());
}

#[test]
fn debug_output_shows_how_many_assert() {
    let log = RefCell::default();
    let line = record(&log);
    let mut devices = [line.connect(), line.connect()];
    devices
        .iter_mut()
        .for_each(|device| device.assert().unwrap());
    let text = format!("{line:?}");
    assert!(text.contains("asserted: Mutex { data: 2"), "{text}");
}

proptest! {
    #[test]
    fn line_is_up_while_any_device_asserts(steps in prop::collection::vec((0..4_usize, any::<bool>()), 0..64)) {
        let log = RefCell::default();
        let line = record(&log);
        let mut devices: Vec<_> = (0..4).map(|_| line.connect()).collect();
        let mut wants = [false; 4];
        for (device, assert) in steps {
            devices[device].set(assert).unwrap();
            wants[device] = assert;
            prop_assert_eq!(line.is_up(), wants.contains(&true));
            prop_assert_eq!(log.borrow().last().copied().unwrap_or(false), line.is_up());
        }
        let alternates = log.borrow().windows(2).all(|pair| pair[0] != pair[1]);
        prop_assert!(alternates);
    }
}
