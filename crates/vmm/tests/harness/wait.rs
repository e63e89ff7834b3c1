//! Waits of the tests: each is for a condition, and none asks how long it took. One bound, which only a hang
//! reaches, turns a hang into a failure that says what was waited for.
#![allow(dead_code, reason = "each program of tests uses a part")]

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
