//! Finds how many operations fill a run, or how many fit into a time limit.

use std::time::{Duration, Instant};

use super::subject::nanoseconds;
use super::{CommandLimit, Subject, SubjectError};

/// The maximum number of operations of one run: even if each takes a single cycle, they take a second or so.
const MAX_OPS: u64 = 1 << 32;

/// Growing stops when a run as a whole takes this many times `min_time`, however long its operations took: the rest of
/// the run is then set-up or pauses.
const OVERHEAD: u32 = 4;

/// The smallest factor between two attempts, so that calibration ends soon.
const MIN_GROWTH: f64 = 2.0;

/// The largest factor between two attempts: the first runs are cold and predict too little.
const MAX_GROWTH: f64 = 20.0;

/// How often each number of operations is tried. The fastest try counts: other work on the host can only make a run
/// longer, and a run that is filled by something else predicts too few operations.
const TRIES: u32 = 3;

/// The minimum number of operations of a run with a time limit: with fewer, the count would be mostly set-up.
const FEWEST: u64 = 10;

/// A run that takes at least 1/8 of its time limit is long enough to predict longer runs.
const TELLING: u64 = 8;

/// A run shorter than this share of `min_time` is too short: calibration was disturbed.
const TOO_SHORT: f64 = 0.5;

/// Grows the number of operations until one run takes `min_time`, and returns it.
pub(super) fn calibrate(
    subject: &mut dyn Subject,
    min_time: Duration,
    limit: &CommandLimit,
) -> Result<u64, SubjectError> {
    let mut ops = 1_u64;
    loop {
        let fastest = fastest(subject, ops, min_time, limit)?;
        if ops >= MAX_OPS || fastest.wall >= min_time * OVERHEAD {
            return Ok(ops);
        }
        let missing = missing(fastest.elapsed_ns, min_time);
        if missing <= MIN_GROWTH {
            return Ok(grown(ops, missing));
        }
        ops = grown(ops, missing.min(MAX_GROWTH)).max(ops + 1);
    }
}

/// The number of operations, at most `most`, that take about `time`: 10, 20, 50, 100 and so on, so that a slightly
/// faster or slower host gets the same number.
pub(super) fn fitting(
    subject: &mut dyn Subject,
    most: u64,
    time: Duration,
    limit: &CommandLimit,
) -> Result<u64, SubjectError> {
    let mut ops = FEWEST.min(most);
    loop {
        let took = one_try(subject, ops, limit)?;
        let missing = missing(took.elapsed_ns.max(nanoseconds(took.wall)), time);
        let fitting = grown(ops, missing);
        if fitting >= most {
            return Ok(most);
        }
        if fitting <= ops * TELLING {
            return Ok(round(fitting).clamp(FEWEST.min(most), most));
        }
        ops = (ops * TELLING).min(most);
    }
}

/// The largest of 1, 2, 5, 10, 20, 50, ... that is at most `ops`.
fn round(ops: u64) -> u64 {
    let power = 10_u64.pow(ops.max(1).ilog10());
    match ops / power {
        5.. => power * 5,
        2..=4 => power * 2,
        _ => power,
    }
}

/// How long one run took: the time that it measured itself, and the time from start to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunTime {
    pub(super) elapsed_ns: f64,
    pub(super) wall: Duration,
}

/// The number of operations for a subject's next run, after a run of `ops` operations took `time`. The number only
/// grows, and only if that run was too short.
pub(super) fn enlarge(ops: u64, time: RunTime, min_time: Duration) -> u64 {
    let missing = missing(time.elapsed_ns, min_time);
    if missing * TOO_SHORT <= 1.0 || time.wall * 2 >= min_time * OVERHEAD {
        return ops;
    }
    grown(ops, missing.min(MAX_GROWTH)).max(ops)
}

fn fastest(
    subject: &mut dyn Subject,
    ops: u64,
    min_time: Duration,
    limit: &CommandLimit,
) -> Result<RunTime, SubjectError> {
    let mut fastest: Option<RunTime> = None;
    for _ in 0..TRIES {
        let time = one_try(subject, ops, limit)?;
        if fastest.is_none_or(|fastest| time.elapsed_ns < fastest.elapsed_ns) {
            fastest = Some(time);
        }
        // For an operation this slow, one try is enough; more would waste the user's time.
        if time.wall >= min_time * OVERHEAD {
            break;
        }
    }
    Ok(fastest.unwrap_or_default())
}

fn one_try(
    subject: &mut dyn Subject,
    ops: u64,
    limit: &CommandLimit,
) -> Result<RunTime, SubjectError> {
    let running = limit.begin_run();
    let started = Instant::now();
    let elapsed_ns = subject.run(ops)?.elapsed_ns;
    let wall = started.elapsed();
    drop(running);
    if limit.stop().is_some() {
        let subject = subject.name().to_owned();
        return Err(SubjectError::TimedOut { subject });
    }
    Ok(RunTime { elapsed_ns, wall })
}

/// The factor by which a run has to grow to fill `min_time`.
fn missing(elapsed_ns: f64, min_time: Duration) -> f64 {
    if elapsed_ns > 0.0 {
        min_time.as_secs_f64() * 1e9 / elapsed_ns
    } else {
        MAX_GROWTH
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive numbers up to MAX_OPS"
)]
fn grown(ops: u64, factor: f64) -> u64 {
    ((ops as f64 * factor).ceil() as u64).clamp(1, MAX_OPS)
}

/// The common number of operations of all subjects, if `fewest` operations fill a run of the slowest subject: the
/// largest power of two that is at most `fewest`, limited to `least..=most`.
pub(super) fn same(fewest: u64, (least, most): (u64, u64)) -> u64 {
    (1 << fewest.max(1).ilog2()).clamp(least, most)
}

#[cfg(test)]
#[path = "calibrate_test.rs"]
mod tests;
