//! Waits of the tests: each waits for a condition, and no test asks how long it took. A limit that only a hang reaches
//! turns the hang into a failure that says what was waited for.

use std::time::{Duration, Instant};

/// A longer wait is a hang: nothing takes this long, even on a busy host or on emulated CPUs.
pub const HANG: Duration = Duration::from_secs(120);

/// Waits for something to become true.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > HANG {
            panic!("hangs: waited {HANG:?} for {what}");
        }
        // Slow conditions are checked less often.
        let pause = begun.elapsed() / 8;
        std::thread::sleep(pause.clamp(Duration::from_micros(20), Duration::from_millis(5)));
    }
}

/// Returns times from `first` up to [`HANG`], each twice the previous one. How much a process does in a given time
/// depends on the host's load; one of these times is long enough.
pub fn growing(first: Duration) -> impl Iterator<Item = Duration> {
    let double = |time: &Duration| Some(*time * 2);
    std::iter::successors(Some(first), double).take_while(|time| *time < HANG)
}
