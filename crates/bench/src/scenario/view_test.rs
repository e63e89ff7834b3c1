//! Tests of the waits, with guest memory and no guest, by a clock that advances when it is read.

use std::cell::Cell;

use super::*;

fn view() -> GuestView {
    let ranges = [(PARAMETERS, 0x1000)];
    GuestView::new(&GuestMemoryMmap::from_ranges(&ranges).unwrap())
}

/// Time since its start.
#[derive(Default)]
struct Time(Cell<Duration>);

impl Time {
    fn wait(&self, view: &GuestView, happened: impl Fn() -> bool) -> Result<(), GuestGone> {
        let start = Instant::now();
        let now = || {
            self.0.set(self.0.get() + LINGER / 20);
            start + self.0.get()
        };
        view.wait_by(now, happened)
    }
}

#[test]
fn nobody_waits_for_a_guest_that_has_ended() {
    let (view, time) = (view(), Time::default());
    view.begin();
    view.end();
    assert!(time.wait(&view, || view.interrupts() > 0).is_err());
    assert_eq!(time.0.get(), LINGER + LINGER / 20);
}

#[test]
fn what_comes_after_the_guests_end_is_still_seen() {
    let (view, time) = (view(), Time::default());
    view.begin();
    view.end();
    let happened = || time.0.get() >= LINGER / 10 * 9;
    assert!(time.wait(&view, happened).is_ok());
}

#[test]
fn a_new_run_waits_again() {
    let view = view();
    view.begin();
    view.end();
    view.begin();
    let looks = Cell::new(0);
    let happened = || {
        looks.set(looks.get() + 1);
        looks.get() > 100
    };
    assert!(Time::default().wait(&view, happened).is_ok());
}
