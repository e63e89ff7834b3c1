//! Two pinned threads that hand a word back and forth: what all handover floors share.
//!
//! One operation is a round trip. The partner thread is started for each run and waits for the first
//! turn before the clock starts, so neither its start nor its pinning is timed.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::in_pieces;
use crate::affinity::{self, AffinityError, Pinned};
use crate::{Limit, Sample, SubjectError};

/// A way to hand the word over.
pub(super) trait Handover: Copy + Send {
    /// Gives the turn to the other side by storing `value`.
    fn give(self, word: &AtomicU32, value: u32);

    /// Waits until the turn comes with `value`.
    fn take(self, word: &AtomicU32, value: u32);
}

/// A word in its own cache line. It takes two lines, because the prefetcher fetches lines in
/// pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU32);

/// How many round trips pass between two questions whether the run has to end. A round trip between
/// sleepers may take 100 us.
const PIECE: u64 = 256;

/// The CPUs of the two sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus {
    pub(super) here: usize,
    pub(super) there: usize,
}

/// Performs `ops` round trips, unless the run has to end before.
#[allow(
    clippy::cast_precision_loss,
    reason = "a run takes far less than 2^53 ns"
)]
pub(super) fn round_trips(
    name: &str,
    cpus: Cpus,
    handover: impl Handover,
    ops: u64,
    limit: &Limit,
) -> Result<Sample, SubjectError> {
    let failed = |error: AffinityError| SubjectError::failed(name, error);
    let line = Line::default();
    let word = &line.0;
    let over = &AtomicBool::new(false);
    let _pinned = Pinned::to(cpus.here).map_err(failed)?;
    let (ready, is_ready) = mpsc::channel();
    let elapsed = thread::scope(|scope| {
        scope.spawn(move || {
            let pinned = affinity::pin(&[cpus.there]);
            let is_pinned = pinned.is_ok();
            // The receiver exists until it has received this.
            let _ = ready.send(pinned);
            if is_pinned {
                partner(word, handover, over);
            }
        });
        match is_ready.recv() {
            Ok(pinned) => pinned.map_err(failed)?,
            Err(_) => return Err(SubjectError::failed(name, "its partner thread ended early")),
        }
        turn(word, handover, 0);
        let mut round = 0;
        let started = Instant::now();
        let trips = in_pieces(name, limit, (ops, PIECE), |trips| {
            for _ in 0..trips {
                round += 1;
                turn(word, handover, round);
            }
            Ok::<(), Infallible>(())
        });
        let elapsed = started.elapsed();
        // The partner waits for one more turn, and ends when it has it.
        over.store(true, Ordering::Relaxed);
        handover.give(word, values(round + 1).0);
        trips.map(|()| elapsed)
    })?;
    Ok(Sample {
        ops,
        elapsed_ns: elapsed.as_nanos() as f64,
        ..Sample::default()
    })
}

/// This side of one round trip: this side makes the word odd, and the partner makes it even again.
fn turn(word: &AtomicU32, handover: impl Handover, round: u64) {
    let (there, back) = values(round);
    handover.give(word, there);
    handover.take(word, back);
}

fn partner(word: &AtomicU32, handover: impl Handover, over: &AtomicBool) {
    for round in 0.. {
        let (there, back) = values(round);
        handover.take(word, there);
        // The thread that sets this gives a turn afterwards, which orders the two.
        if over.load(Ordering::Relaxed) {
            return;
        }
        handover.give(word, back);
    }
}

/// The word's two values in this round. They repeat after 2^31 rounds; only those of neighbouring
/// rounds must differ.
#[allow(clippy::cast_possible_truncation, reason = "wraps on purpose")]
const fn values(round: u64) -> (u32, u32) {
    let start = (round as u32).wrapping_mul(2);
    (start.wrapping_add(1), start.wrapping_add(2))
}
