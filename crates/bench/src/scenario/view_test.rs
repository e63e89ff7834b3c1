//! Tests of the waits, with guest memory and no guest.

use super::*;

fn view() -> GuestView {
    let ranges = [(PARAMETERS, 0x1000)];
    GuestView::new(&GuestMemoryMmap::from_ranges(&ranges).unwrap())
}

#[test]
fn nobody_waits_for_a_guest_that_has_ended() {
    let view = view();
    view.begin();
    view.end();
    let begun = Instant::now();
    assert!(view.wait(|| view.interrupts() > 0).is_err());
    assert!(begun.elapsed() >= LINGER);
}

#[test]
fn what_comes_after_the_guests_end_is_still_seen() {
    let view = view();
    view.begin();
    view.end();
    let arrives = Instant::now() + LINGER / 10;
    assert!(view.wait(|| Instant::now() >= arrives).is_ok());
}

#[test]
fn a_new_run_waits_again() {
    let view = view();
    view.begin();
    view.end();
    view.begin();
    let late = Instant::now() + LINGER + LINGER / 5;
    assert!(view.wait(|| Instant::now() >= late).is_ok());
}
