//! Rounds: every variant runs once in each, in an order drawn anew, and what it counted is kept.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow};

use super::variant::Variant;
use vmbell_bench::affinity;
use vmbell_bench::perf::{Event, PerfCounter, PerfError, Scope};
use vmbell_bench::workload::{self, Options, Role, Tally};
use vmbell_bench::{Observer, Phase};
use vmbell_report::Random;

/// Buffers of a run before the first round, which is not kept.
const WARM_UP: u64 = 4096;
/// How long a run of the slowest variant may take, if nobody has chosen how many buffers it has.
const RUN_NS: f64 = 5e8;

/// A counter, or why there is none.
type Counter = Result<PerfCounter, PerfError>;

/// The CPUs of the two sides; no device CPU if both are on one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where {
    pub(super) driver: usize,
    pub(super) device: Option<usize>,
}

/// What is to be measured.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) variants: Vec<Variant>,
    /// Whether the number of buffers is the user's; otherwise it is the most that a run has.
    pub(super) chosen: bool,
    pub(super) place: Where,
    pub(super) repeat: u32,
    pub(super) seed: u64,
    pub(super) interrupted: &'static AtomicBool,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Results {
    /// By variant; each in the order of rounds.
    pub(super) runs: Vec<Vec<Run>>,
    /// In the order of [`Event::ALL`]: whose part is counted, or why none is.
    pub(super) events: Vec<(Event, Result<Scope, String>)>,
    /// Whether SIGINT ended it early.
    pub(super) interrupted: bool,
}

/// One run of one variant.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) tally: Tally,
    /// In the order of [`Event::ALL`], where they are counted.
    pub(super) events: Vec<Option<f64>>,
}

impl Session {
    /// Runs all variants `repeat` times. An interrupt ends it after the run that it comes in, and
    /// only whole rounds are kept.
    ///
    /// All variants have the same number of buffers, and if nobody has chosen one, it is found here.
    pub(super) fn measure(&mut self, observer: &mut dyn Observer) -> Result<Results> {
        let mut counters: Vec<_> = Event::ALL.map(PerfCounter::open).into();
        let slowest = self.warm_up(&mut counters, observer)?;
        if !self.chosen {
            for variant in &mut self.variants {
                variant.options.bufs = fit(slowest, &variant.options);
            }
        }
        let mut runs: Vec<Vec<Run>> = self.variants.iter().map(|_| Vec::new()).collect();
        let interrupted = || self.interrupted.load(Ordering::Relaxed);
        let steps = u64::from(self.repeat) * self.variants.len() as u64;
        observer.phase(Phase::Measure, steps);
        let mut random = Random::new(self.seed);
        let mut order: Vec<usize> = (0..self.variants.len()).collect();
        'rounds: for _ in 0..self.repeat {
            random.shuffle(&mut order);
            let mut round = Vec::with_capacity(order.len());
            for index in &order {
                if interrupted() {
                    break 'rounds;
                }
                let variant = &self.variants[*index];
                let run = self.one(variant, &variant.options, &mut counters)?;
                observer.step(&variant.name, Some(run.tally.ns_per_buffer()));
                round.push((*index, run));
            }
            for (index, run) in round {
                runs[index].push(run);
            }
        }
        let scope = |counter: Counter| match counter {
            Ok(counter) => Ok(counter.scope()),
            Err(error) => Err(format!("{:#}", anyhow::Error::new(error))),
        };
        Ok(Results {
            interrupted: interrupted(),
            runs,
            events: Event::ALL
                .into_iter()
                .zip(counters.into_iter().map(scope))
                .collect(),
        })
    }

    /// Runs all variants for a short while; gives the nanoseconds a buffer of the slowest.
    fn warm_up(&self, counters: &mut [Counter], observer: &mut dyn Observer) -> Result<f64> {
        observer.phase(Phase::WarmUp, self.variants.len() as u64);
        let mut slowest = 0.0_f64;
        for variant in &self.variants {
            let options = Options {
                bufs: variant.options.bufs.min(WARM_UP),
                ..variant.options
            };
            let run = self.one(variant, &options, counters)?;
            let ns = run.tally.ns_per_buffer();
            observer.step(&variant.name, Some(ns));
            slowest = slowest.max(ns);
        }
        Ok(slowest)
    }

    fn one(&self, variant: &Variant, options: &Options, counters: &mut [Counter]) -> Result<Run> {
        let unpinned = Mutex::new(None);
        // The measuring thread, which drives, is pinned already.
        let on_thread = |role| {
            let Some(cpu) = self.place.device.filter(|_| role == Role::Device) else {
                return;
            };
            if let (Err(error), Ok(mut unpinned)) = (affinity::pin(&[cpu]), unpinned.lock()) {
                *unpinned = Some(error);
            }
        };
        let before = read(counters)?;
        let tally = workload::run(options, &on_thread)
            .with_context(|| format!("{} failed", variant.switches))?;
        let after = read(counters)?;
        let unpinned = unpinned
            .into_inner()
            .map_err(|_| anyhow!("the device thread panicked"))?;
        if let Some(error) = unpinned {
            return Err(error.into());
        }
        let events = before.into_iter().zip(after);
        Ok(Run {
            tally,
            events: events.map(|(b, a)| Some(a? - b?)).collect(),
        })
    }
}

/// How many buffers a run has at `ns` each: a power of two, so that the next session on this host finds
/// the same, or what a reset needs to come at all.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and clamped before it is large"
)]
fn fit(ns: f64, options: &Options) -> u64 {
    let least = options.reset.unwrap_or(0).max(WARM_UP);
    let bufs = (RUN_NS / ns).clamp(1.0, 1e9) as u64;
    (1 << bufs.ilog2()).clamp(least.min(options.bufs), options.bufs)
}

fn read(counters: &mut [Counter]) -> Result<Vec<Option<f64>>> {
    counters
        .iter_mut()
        .map(|counter| match counter {
            Ok(counter) => {
                let name = counter.event().name();
                let count = counter.read();
                count
                    .map(Some)
                    .with_context(|| format!("cannot read {name}"))
            }
            Err(_) => Ok(None),
        })
        .collect()
}

#[cfg(test)]
#[path = "measure_test.rs"]
mod tests;
