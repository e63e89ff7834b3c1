//! Counts kernel events of the calling thread and of the threads that it starts, with `perf_event_open(2)`, as
//! `perf stat` does.
//!
//! A host may refuse to count an event: `kernel.perf_event_paranoid` may forbid counting in the kernel
//! or at all, and a virtual machine often has no hardware counters. The report then gives the reason
//! for each event.

use std::fmt;
use std::io;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use vmbell_report::{Counted, EventUnit, Scope};

/// An event that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// Time on a CPU, in nanoseconds.
    TaskClock,
    /// How often the CPU switched from one thread to another.
    ContextSwitches,
    /// CPU cycles.
    Cycles,
    /// Instructions retired.
    Instructions,
}

impl PerfEvent {
    /// All events, in the order in which `perf stat` prints them.
    pub const ALL: [Self; 4] = [
        Self::TaskClock,
        Self::ContextSwitches,
        Self::Cycles,
        Self::Instructions,
    ];

    /// The name of the event, as `perf list` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskClock => "task-clock",
            Self::ContextSwitches => "context-switches",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
        }
    }

    /// The unit of the counts.
    pub const fn unit(self) -> EventUnit {
        match self {
            Self::TaskClock => EventUnit::Ns,
            Self::ContextSwitches | Self::Cycles | Self::Instructions => EventUnit::Count,
        }
    }

    fn builder(self) -> Builder<'static> {
        match self {
            Self::TaskClock => Builder::new(Software::TASK_CLOCK),
            Self::ContextSwitches => Builder::new(Software::CONTEXT_SWITCHES),
            Self::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Self::Instructions => Builder::new(Hardware::INSTRUCTIONS),
        }
    }

    /// Whether a count of user mode alone means anything: context switches happen in the kernel.
    const fn counts_in_user_mode(self) -> bool {
        !matches!(self, Self::ContextSwitches)
    }
}

/// Why an event is not counted.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The CPU, or the hypervisor that this host runs on, has no such counter.
    #[error("this host has no counter for it")]
    Absent(#[source] io::Error),
    /// `kernel.perf_event_paranoid`, a security module or a container forbids the counter.
    #[error("this host does not allow it, see /proc/sys/kernel/perf_event_paranoid")]
    Forbidden(#[source] io::Error),
    /// `perf_event_open(2)` failed for another reason.
    #[error("cannot count it")]
    Open(#[source] io::Error),
}

impl From<io::Error> for PerfError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => Self::Absent(error),
            Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => Self::Forbidden(error),
            _ => Self::Open(error),
        }
    }
}

/// A running counter of one event.
pub struct PerfCounter {
    event: PerfEvent,
    scope: Scope,
    counter: Counter,
}

impl fmt::Debug for PerfCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerfCounter({}, {:?})", self.event.name(), self.scope)
    }
}

impl PerfCounter {
    /// Starts counting `event` for the calling thread and all threads that it will start.
    ///
    /// # Errors
    ///
    /// If the host has no such counter or does not allow it.
    pub fn open(event: PerfEvent) -> Result<Self, PerfError> {
        let open = |scope| -> Result<Self, PerfError> {
            let mut builder = event.builder();
            builder.inherit(true);
            if scope == Scope::All {
                builder.include_kernel();
            }
            let mut counter = builder.build()?;
            counter.enable()?;
            Ok(Self {
                event,
                scope,
                counter,
            })
        };
        match open(Scope::All) {
            Err(PerfError::Forbidden(_)) if event.counts_in_user_mode() => open(Scope::User),
            other => other,
        }
    }

    /// Which part of the work is counted.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The count so far. If there are more events than hardware counters, the kernel counts them in turns, and the
    /// count is scaled up by the share of the time that its event was counted.
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts of a benchmark are far below 2^53"
    )]
    pub fn read(&mut self) -> io::Result<f64> {
        let now = self.counter.read_count_and_time()?;
        if now.time_running == 0 || now.time_running == now.time_enabled {
            return Ok(now.count as f64);
        }
        Ok(now.count as f64 * now.time_enabled as f64 / now.time_running as f64)
    }
}

/// The source of the counts, for the report.
pub const SOURCE: &str = "perf_event_open(2)";

/// Counters of all events for the calling thread, from [`open`](Self::open) on.
#[derive(Debug, Default)]
pub struct PerfCounters(Vec<(PerfEvent, Result<PerfCounter, PerfError>)>);

impl PerfCounters {
    /// Starts counting the events that this host allows.
    pub fn open() -> Self {
        let open = |event| (event, PerfCounter::open(event));
        Self(PerfEvent::ALL.into_iter().map(open).collect())
    }

    /// For each event, which part of the work is counted, or why it is not counted.
    pub fn counted(&self) -> Vec<Counted> {
        let counted = |(event, counter): &(PerfEvent, Result<PerfCounter, PerfError>)| Counted {
            event: event.name().to_owned(),
            unit: event.unit(),
            scope: counter.as_ref().ok().map(PerfCounter::scope),
            reason: counter
                .as_ref()
                .err()
                .map(|error| vmbell_hypervisor::chain(error)),
        };
        self.0.iter().map(counted).collect()
    }

    /// The counts so far of all events that are counted.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<f64>> {
        let counters = self
            .0
            .iter_mut()
            .filter_map(|(_, counter)| counter.as_mut().ok());
        counters.map(PerfCounter::read).collect()
    }

    /// What was counted since `before`, as names and counts.
    ///
    /// # Errors
    ///
    /// If a counter cannot be read.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and far below 2^53"
    )]
    pub fn since(&mut self, before: &[f64]) -> io::Result<Vec<(String, u64)>> {
        let now = self.read()?;
        let counters = self.0.iter().filter(|(_, counter)| counter.is_ok());
        let names = counters.map(|(event, _)| event.name().to_owned());
        let counts = now.iter().zip(before);
        let counts = counts.map(|(now, before)| (now - before).max(0.0).round() as u64);
        Ok(names.zip(counts).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_started_later_is_counted_too() {
        // Software events need no hardware. If the host refuses even these, this tests the refusal.
        let mut counter = match PerfCounter::open(PerfEvent::TaskClock) {
            Ok(counter) => counter,
            Err(error) => {
                assert!(matches!(error, PerfError::Forbidden(_)), "{error:?}");
                return;
            }
        };
        let before = counter.read().unwrap();
        std::thread::spawn(|| {
            // The loop is bounded by work, not by time: on a busy host the thread may get no CPU for a while.
            (0..5_000_000).for_each(|_| std::hint::spin_loop());
        })
        .join()
        .unwrap();
        let spent = counter.read().unwrap() - before;
        assert!(
            spent > 5e6,
            "only {spent} ns of a thread that span 5 million times"
        );
    }

    #[test]
    fn every_event_has_perfs_name() {
        let names = PerfEvent::ALL.map(PerfEvent::name);
        assert_eq!(
            names,
            ["task-clock", "context-switches", "cycles", "instructions"]
        );
    }

    #[test]
    fn a_refusal_says_whose_it_is() {
        let of = |errno| PerfError::from(io::Error::from_raw_os_error(errno)).to_string();
        assert!(of(libc::ENOENT).contains("no counter"));
        assert!(of(libc::EACCES).contains("paranoid"));
        assert!(of(libc::EINVAL).contains("cannot"));
    }
}
