//! The floors of a heavy exit: two pinned threads that hand a word back and forth. One operation is a round trip.
//!
//! `floor-futex-same-core`, `floor-futex-cross-core`: the other side sleeps. A round trip is two wake-ups and two
//! switches. `floor-cache-line`: the other side spins, as does the poller of a doorbell word. In a round trip the cache
//! line moves to the other CPU and back.
//!
//! The partner thread is started for each run and waits for the first turn before the clock starts, so neither its
//! start nor its pinning is timed.

use std::convert::Infallible;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::{Cpus, in_pieces, raw};
use crate::affinity::{self, AffinityError, Pinned};
use crate::subject::nanoseconds;
use crate::{CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting};

/// A way to hand the word over.
trait WordHandover: Copy + Send {
    /// Gives the turn to the other side by storing `value`.
    fn give(self, word: &AtomicU32, value: u32);

    /// Waits until the turn comes with `value`.
    fn take(self, word: &AtomicU32, value: u32);
}

/// A word in its own cache line. It takes up two lines, because the prefetcher fetches lines in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct WordLine(AtomicU32);

/// How many round trips pass between two checks whether the run has to end. A round trip between sleepers may take 100
/// us.
const PIECE: u64 = 256;

/// Performs `ops` round trips, unless the run has to end earlier.
fn round_trips(
    name: &str,
    cpus: Cpus,
    handover: impl WordHandover,
    ops: u64,
    limit: &CommandLimit,
) -> Result<RunSample, SubjectError> {
    let failed = |error: AffinityError| SubjectError::failed(name, error);
    let line = WordLine::default();
    let word = &line.0;
    let over = &AtomicBool::new(false);
    let _pinned = Pinned::to(&[cpus.here]).map_err(failed)?;
    let (ready, is_ready) = mpsc::channel();
    let elapsed = thread::scope(|scope| {
        scope.spawn(move || {
            let pinned = affinity::pin(&[cpus.there]);
            let is_pinned = pinned.is_ok();
            // The receiver exists until it has received this message.
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
        // The partner waits for one more turn, and ends after that turn.
        over.store(true, Ordering::Relaxed);
        handover.give(word, values(round + 1).0);
        trips.map(|()| elapsed)
    })?;
    Ok(RunSample {
        ops,
        elapsed_ns: nanoseconds(elapsed),
        ..RunSample::default()
    })
}

/// One round trip of this side: this side makes the word odd, and the partner makes it even again.
fn turn(word: &AtomicU32, handover: impl WordHandover, round: u64) {
    let (there, back) = values(round);
    handover.give(word, there);
    handover.take(word, back);
}

fn partner(word: &AtomicU32, handover: impl WordHandover, over: &AtomicBool) {
    for round in 0.. {
        let (there, back) = values(round);
        handover.take(word, there);
        // The thread that sets this flag then gives a turn, which orders the flag before the turn.
        if over.load(Ordering::Relaxed) {
            return;
        }
        handover.give(word, back);
    }
}

/// The word's two values in this round. They repeat after 2^31 rounds; only neighbouring rounds need different values.
#[allow(clippy::cast_possible_truncation, reason = "wraps on purpose")]
const fn values(round: u64) -> (u32, u32) {
    let start = (round as u32).wrapping_mul(2);
    (start.wrapping_add(1), start.wrapping_add(2))
}

pub(super) const SAME_CORE: &str = "floor-futex-same-core";
pub(super) const CROSS_CORE: &str = "floor-futex-cross-core";

struct Futex {
    name: &'static str,
    cpus: Cpus,
    limit: CommandLimit,
}

pub(super) fn make_same_core(options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
    let cpu = options.first_cpu();
    Ok(Box::new(Futex {
        name: SAME_CORE,
        cpus: Cpus {
            here: cpu,
            there: cpu,
        },
        limit: options.limit.clone(),
    }))
}

pub(super) fn make_cross_core(options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
    Ok(Box::new(Futex {
        name: CROSS_CORE,
        cpus: super::two_cpus(options)?,
        limit: options.limit.clone(),
    }))
}

impl Subject for Futex {
    fn name(&self) -> &str {
        self.name
    }

    fn setting(&self) -> SubjectSetting {
        super::setting(self.cpus)
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        round_trips(self.name, self.cpus, Sleeping, ops, &self.limit)
    }
}

/// Sleeps until its turn, and always wakes the other side, because it cannot know whether the other side sleeps.
#[derive(Clone, Copy)]
struct Sleeping;

impl WordHandover for Sleeping {
    fn give(self, word: &AtomicU32, value: u32) {
        word.store(value, Ordering::Release);
        raw::futex_wake(word);
    }

    fn take(self, word: &AtomicU32, value: u32) {
        loop {
            let now = word.load(Ordering::Acquire);
            if now == value {
                return;
            }
            raw::futex_wait(word, now);
        }
    }
}

pub(super) const CACHE_LINE: &str = "floor-cache-line";

/// Round trips of one trial; they take a few milliseconds.
const TRIAL: u64 = 20_000;

/// The number of round trips in a trial if they are slow. If both CPUs are threads of an emulator on one host CPU, a
/// round trip lasts until each has had its time slice, and a time slice lasts milliseconds.
const SLOW_TRIAL: u64 = 10;

/// A round trip of at least this many nanoseconds is slow.
const SLOW: f64 = 20_000.0;

/// Trials of each way to spin; the median counts.
const TRIALS: usize = 3;

/// The best way to spin depends on the CPU. On some, bare loads delay the other side's store (on AMD Zen, bare loads
/// were slower and scattered); on others, PAUSE makes the loads rare (140 cycles each on Skylake). A floor is the lower
/// of the two, so both are tried.
struct CacheLine {
    cpus: Cpus,
    spinning: Spinning,
    limit: CommandLimit,
}

pub(super) fn make_cache_line(options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
    let cpus = super::two_cpus(options)?;
    let bare = middle_trial(options, cpus, Spinning { pause: false })?;
    let paused = middle_trial(options, cpus, Spinning { pause: true })?;
    Ok(Box::new(CacheLine {
        cpus,
        spinning: Spinning {
            pause: paused <= bare,
        },
        limit: options.limit.clone(),
    }))
}

fn middle_trial(
    options: &SubjectOptions,
    cpus: Cpus,
    spinning: Spinning,
) -> Result<f64, SubjectError> {
    let trials = |trips| {
        let mut trials = [0.0; TRIALS];
        for trial in &mut trials {
            *trial = round_trips(CACHE_LINE, cpus, spinning, trips, &options.limit)?.ns_per_op();
        }
        trials.sort_by(f64::total_cmp);
        Ok(trials)
    };
    let short = trials(SLOW_TRIAL)?;
    if short[0] > SLOW {
        return Ok(short[TRIALS / 2]);
    }
    Ok(trials(TRIAL)?[TRIALS / 2])
}

impl Subject for CacheLine {
    fn name(&self) -> &str {
        CACHE_LINE
    }

    fn setting(&self) -> SubjectSetting {
        super::setting(self.cpus)
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        round_trips(CACHE_LINE, self.cpus, self.spinning, ops, &self.limit)
    }
}

/// Watches the word continuously.
#[derive(Clone, Copy)]
struct Spinning {
    pause: bool,
}

impl WordHandover for Spinning {
    fn give(self, word: &AtomicU32, value: u32) {
        word.store(value, Ordering::Release);
    }

    fn take(self, word: &AtomicU32, value: u32) {
        while word.load(Ordering::Acquire) != value {
            if self.pause {
                hint::spin_loop();
            }
        }
    }
}
