//! `floor-futex-same-core`, `floor-futex-cross-core`: the floor of a heavy exit whose other side
//! sleeps. One operation is a round trip: two wake-ups and two switches.

use std::sync::atomic::{AtomicU32, Ordering};

use super::partner::{Cpus, Handover, round_trips};
use super::raw;
use crate::{Limit, Options, Sample, Setting, Subject, SubjectError};

pub(super) const SAME_CORE: &str = "floor-futex-same-core";
pub(super) const CROSS_CORE: &str = "floor-futex-cross-core";

struct Futex {
    name: &'static str,
    cpus: Cpus,
    limit: Limit,
}

pub(super) fn make_same_core(options: &Options) -> Result<Box<dyn Subject>, SubjectError> {
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

pub(super) fn make_cross_core(options: &Options) -> Result<Box<dyn Subject>, SubjectError> {
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

    fn setting(&self) -> Setting {
        super::setting(self.cpus)
    }

    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError> {
        round_trips(self.name, self.cpus, Sleeping, ops, &self.limit)
    }
}

/// Sleeps until its turn, and always wakes the other side, since it cannot know whether that sleeps.
#[derive(Clone, Copy)]
struct Sleeping;

impl Handover for Sleeping {
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
