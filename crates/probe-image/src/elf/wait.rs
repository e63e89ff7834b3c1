//! Bounded waits, so that no VMM can make the image wait for ever.

use super::cpu::{halt, ticks};

/// How many ticks a wait lasts at most: about a second of a fast CPU, and more of a slow one.
const LIMIT: u64 = 4_000_000_000;
/// How often a condition is checked at most, in case the time stamp counter does not count.
const LOOKS: u64 = 400_000_000;

/// Waits on the CPU for a condition; false if it does not come.
#[inline]
pub fn wait_until(condition: impl Fn() -> bool) -> bool {
    if condition() {
        return true;
    }
    let from = ticks();
    for _ in 0..LOOKS {
        if condition() {
            return true;
        }
        if ticks().wrapping_sub(from) > LIMIT {
            break;
        }
        core::hint::spin_loop();
    }
    false
}

/// Halts until a condition; false if it does not come. The watchdog has to run, or nothing might end the halt.
#[inline]
pub fn halt_until(condition: impl Fn() -> bool) -> bool {
    let from = ticks();
    loop {
        if condition() {
            return true;
        }
        if ticks().wrapping_sub(from) > LIMIT {
            return false;
        }
        halt();
    }
}
