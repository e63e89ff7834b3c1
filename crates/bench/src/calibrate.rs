//! Finds how many operations fill a run.

use std::time::{Duration, Instant};

use super::{Subject, SubjectError};

/// The most operations of one run: even if each takes a single cycle, they take a second or so.
const MAX_OPS: u64 = 1 << 32;

/// Growing stops when a run as a whole takes this many times `min_time`, whatever time its operations
/// took: set-up or pauses then fill the run.
const OVERHEAD: u32 = 4;

/// The smallest factor between two attempts, so that calibration ends soon.
const MIN_GROWTH: f64 = 2.0;

/// The largest factor between two attempts: the first runs are cold and predict too little.
const MAX_GROWTH: f64 = 20.0;

/// Grows the number of operations until one run takes `min_time`, and returns it.
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

/// The common number of operations of all subjects, if `fewest` fill a run of the slowest one: the
/// largest power of two that is not above `fewest`, kept between `least` and `most`.
pub(super) fn same(fewest: u64, (least, most): (u64, u64)) -> u64 {
    (1 << fewest.max(1).ilog2()).clamp(least, most)
}

#[cfg(test)]
#[path = "calibrate_test.rs"]
mod tests;
