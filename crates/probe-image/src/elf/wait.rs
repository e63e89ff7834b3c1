//! Bounded waits: nothing that a VMM does, or does not do, keeps the image for ever.

use super::cpu::{halt, ticks};

/// How many ticks a wait lasts at most: about a second of a fast CPU, and more of a slow one.
const LIMIT: u64 = 4_000_000_000;
/// How often a condition is looked at most, should the time stamp counter stand still.
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
