//! How many operations fill a run.

use std::time::{Duration, Instant};

use super::{Subject, SubjectError};

/// Most operations of one run: even a single cycle each takes seconds.
const MAX_OPS: u64 = 1 << 32;

/// A subject whose runs take this many times longer than what they measure is not grown further:
/// its set-up or its pauses already fill the time.
const OVERHEAD: u32 = 4;

/// The smallest step between two attempts, so that it ends soon.
const MIN_GROWTH: f64 = 2.0;

/// The largest step: the first runs are cold and promise too little.
const MAX_GROWTH: f64 = 20.0;

/// Grows the number of operations until a run takes `min_time`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive numbers up to MAX_OPS"
)]
pub(super) fn calibrate(
    subject: &mut dyn Subject,
    min_time: Duration,
) -> Result<u64, SubjectError> {
    let wanted = min_time.as_secs_f64() * 1e9;
    let mut ops = 1_u64;
    loop {
        let started = Instant::now();
        let elapsed = subject.run(ops)?.elapsed_ns;
        let filled = if elapsed > 0.0 {
            wanted / elapsed
        } else {
            MAX_GROWTH
        };
        if ops >= MAX_OPS || started.elapsed() >= min_time * OVERHEAD {
            return Ok(ops);
        }
        if filled <= MIN_GROWTH {
            let ops = (ops as f64 * filled).ceil() as u64;
            return Ok(ops.clamp(1, MAX_OPS));
        }
        ops = ((ops as f64 * filled.min(MAX_GROWTH)).ceil() as u64).min(MAX_OPS);
    }
}

/// How many operations all subjects have of whom the slowest fills a run with `fewest`.
pub(super) fn same(fewest: u64, (least, most): (u64, u64)) -> u64 {
    (1 << fewest.max(1).ilog2()).clamp(least, most)
}

#[cfg(test)]
#[path = "calibrate_test.rs"]
mod tests;
