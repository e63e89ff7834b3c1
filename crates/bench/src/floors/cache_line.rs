//! `floor-cache-line`: the floor of a heavy exit whose other side spins, and of a doorbell word whose
//! poller is awake. One operation is a round trip: the cache line moves to the other CPU and back.
//!
//! Which way to spin is best depends on the CPU. On some, bare loads delay the other side's store
//! (measured on AMD Zen: slower and scattered); on others, PAUSE makes the loads rare (140 cycles each
//! on Skylake). A floor is the lower of the two, so both are tried.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};

use super::partner::{Cpus, Handover, round_trips};
use crate::{Limit, Options, Sample, Setting, Subject, SubjectError};

pub(super) const NAME: &str = "floor-cache-line";

/// Round trips of one trial; they take a few milliseconds.
const TRIAL: u64 = 20_000;

/// Round trips of a trial where each is slow, even in the fastest trial. If both CPUs are threads of an emulator that share one, a round trip
/// lasts until each had its time slice, which is milliseconds.
const SLOW_TRIAL: u64 = 10;

/// From how many nanoseconds on a round trip is slow.
const SLOW: f64 = 20_000.0;

/// Trials of each way to spin; their median counts.
const TRIALS: usize = 3;

struct CacheLine {
    cpus: Cpus,
    spinning: Spinning,
    limit: Limit,
}

pub(super) fn make(options: &Options) -> Result<Box<dyn Subject>, SubjectError> {
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

fn middle_trial(options: &Options, cpus: Cpus, spinning: Spinning) -> Result<f64, SubjectError> {
    let trials = |trips| {
        let mut trials = [0.0; TRIALS];
        for trial in &mut trials {
            *trial = round_trips(NAME, cpus, spinning, trips, &options.limit)?.ns_per_op();
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
        NAME
    }

    fn setting(&self) -> Setting {
        super::setting(self.cpus)
    }

    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        round_trips(NAME, self.cpus, self.spinning, ops, &self.limit)
    }
}

/// Watches the word all the time.
#[derive(Clone, Copy)]
struct Spinning {
    pause: bool,
}

impl Handover for Spinning {
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
