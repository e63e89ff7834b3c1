//! The source `tracefs`: histograms of KVM's tracepoints in a tracing instance, for kernels and hosts without BPF.
//!
//! `triggers` says what is counted, `hist` reads it, `instance` is the folder in tracefs, and `guard` removes it. A histogram knows
//! threads and not VMs; `owners` says whose they are, and makes the events of programs of them.

pub mod guard;
mod hist;
mod instance;
mod owners;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use self::guard::Guard;
use self::instance::Instance;
use self::owners::Owners;
use self::triggers::{Traced, Triggers};
use crate::bpf::{BpfReading, Isa, KernelVm, Metric};
use crate::counters::{Directory, Statistics};

/// Histograms that count until this value is dropped.
#[derive(Debug)]
pub struct Tracefs {
    triggers: Triggers,
    metrics: Vec<Metric>,
    missing: Vec<(Metric, TracefsError)>,
    /// The threads that are counted; `None` for all.
    threads: Option<BTreeSet<u32>>,
    owners: Owners,
    /// Declared last, so that it ends after the instance was removed.
    _guard: Guard,
}

/// Why the source, or one of its metrics, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// Tracefs is mounted nowhere.
    #[error(
        "tracefs is not mounted: `mount -t tracefs none /sys/kernel/tracing` (needs CONFIG_TRACING)"
    )]
    NotMounted,
    /// The files' permissions forbid it.
    #[error("tracefs is for root: run as root")]
    NotRoot,
    /// The kernel forbids it.
    #[error("the kernel's lockdown (confidentiality) forbids tracefs")]
    Lockdown,
    /// The process numbers of events are others.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// The kernel was built without it.
    #[error("this kernel lacks {0}")]
    NoOption(&'static str),
    /// The kernel has no such tracepoint.
    #[error("this kernel has no tracepoint {0} (is kvm loaded?)")]
    NoEvent(String),
    /// The tracepoints do not tell it.
    #[error("{} cannot be counted by tracefs", .0.name())]
    Metric(Metric),
    /// The guard cannot be started.
    #[error("cannot start the process that removes the tracing instance")]
    Guard(#[source] io::Error),
    /// Something else.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl TracefsError {
    fn explain(what: &'static str, path: &Path, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EACCES) => Self::NotRoot,
            Some(libc::EPERM) => Self::Lockdown,
            _ => Self::File {
                what,
                path: path.to_owned(),
                source,
            },
        }
    }
}

/// Whether the tracepoints tell a metric on this architecture.
pub fn tells(metric: Metric) -> bool {
    let is_told = [Metric::ToVmm, Metric::Eois, Metric::PvEois, Metric::Exits];
    is_told.contains(&metric) && metric.exists()
}

/// Removes the instances of processes that ended without doing it, such as a killed one whose guard was killed, too.
pub(crate) fn remove_left_over() {
    // Elsewhere the numbers of processes are others.
    if crate::bpf::is_first_namespace() {
        instance::remove_left_over();
    }
}

impl Tracefs {
    /// Counts these metrics of some threads, or of all.
    pub(crate) fn open(
        metrics: &[Metric],
        threads: Option<BTreeSet<u32>>,
    ) -> Result<Self, TracefsError> {
        if !crate::bpf::is_first_namespace() {
            return Err(TracefsError::NotAllowed(crate::bpf::NAMESPACE));
        }
        let instance = Instance::of_this_process()?;
        // First, so that nothing is left if this process is killed from here on.
        let guard = Guard::start(&instance).map_err(TracefsError::Guard)?;
        instance.create()?;
        let mut tracefs = Self {
            triggers: Triggers::new(instance, Isa::of_host()),
            metrics: Vec::new(),
            missing: Vec::new(),
            threads,
            owners: Owners::default(),
            _guard: guard,
        };
        for metric in metrics {
            match tracefs.count(*metric) {
                Ok(()) => tracefs.metrics.push(*metric),
                // It was asked for.
                Err(error) if metric.is_optional() => return Err(error),
                Err(error) => tracefs.missing.push((*metric, error)),
            }
        }
        match tracefs.missing.pop() {
            Some((_, error)) if tracefs.metrics.is_empty() => Err(error),
            last => {
                tracefs.missing.extend(last);
                Ok(tracefs)
            }
        }
    }

    fn count(&mut self, metric: Metric) -> Result<(), TracefsError> {
        self.triggers.prepare(metric)?;
        match &self.threads {
            Some(threads) if threads.is_empty() => Ok(()),
            threads => self.triggers.add(metric, threads.as_ref()),
        }
    }

    /// Whether a metric is counted.
    pub fn counts(&self, metric: Metric) -> bool {
        self.metrics.contains(&metric)
    }

    /// The metrics that should be counted and are not, and why.
    pub fn missing(&self) -> &[(Metric, TracefsError)] {
        &self.missing
    }

    /// Counts these threads as well, unless all are counted.
    pub(crate) fn add_threads(&mut self, found: &BTreeSet<u32>) -> Result<(), TracefsError> {
        let Some(threads) = &mut self.threads else {
            return Ok(());
        };
        let new: BTreeSet<u32> = found.difference(threads).copied().collect();
        threads.extend(&new);
        if new.is_empty() {
            return Ok(());
        }
        for metric in &self.metrics {
            self.triggers.add(*metric, Some(&new))?;
        }
        Ok(())
    }

    /// Reads what was counted, by thread.
    pub(crate) fn read(&self) -> Result<Counts, TracefsError> {
        self.triggers.read().map(Counts)
    }

    /// Adds what was counted to the events of VMs. Statistics that were read later say which threads are theirs.
    pub(crate) fn add_to(
        &mut self,
        events: &mut BpfReading,
        counts: &Counts,
        proc: &Path,
        counters: Option<&BTreeMap<Directory, Statistics>>,
    ) {
        events.isa = self.triggers.isa;
        self.owners.add_to(events, &counts.0, proc, counters);
    }

    /// The processes of VMs that are known by nothing but their process.
    pub(crate) fn creators(&self) -> impl Iterator<Item = (u32, u32)> {
        self.owners.creators()
    }

    /// Forgets VMs that have ended.
    pub(crate) fn forget(&mut self, ended: &BTreeSet<KernelVm>) {
        self.owners.forget(ended);
    }
}

/// What was counted by thread.
#[derive(Debug)]
pub(crate) struct Counts(Traced);

impl Drop for Tracefs {
    fn drop(&mut self) {
        // The guard, and after it the next start, try it again.
        let _ = self.triggers.instance.remove();
    }
}
