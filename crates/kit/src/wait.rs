//! Waits of the tests: each is for a condition, and none asks how long it took. One bound, which only a hang
//! reaches, turns a hang into a failure that says what was waited for.

use std::time::{Duration, Instant};

/// What waits longer has hung: nothing takes this long on a busy host, or on emulated CPUs.
pub const HANG: Duration = Duration::from_secs(120);

/// Waits for something to become true.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > HANG {
            panic!("hangs: waited {HANG:?} for {what}");
        }
        // What takes long is looked at more rarely.
        let pause = begun.elapsed() / 8;
        std::thread::sleep(pause.clamp(Duration::from_micros(20), Duration::from_millis(5)));
    }
}

/// Times from a short one to one that is too long for anything but a hang: what a process does in a given time
/// depends on what else the host does, and one of these is enough.
pub fn growing(first: Duration) -> impl Iterator<Item = Duration> {
    let double = |time: &Duration| Some(*time * 2);
    std::iter::successors(Some(first), double).take_while(|time| *time < HANG)
}
