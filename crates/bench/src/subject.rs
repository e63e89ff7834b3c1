//! What the runner measures: a subject performs an operation many times and says how long that took.
//!
//! A subject is made, used and dropped on the one thread that measures. So it need not be `Send`, and a child process
//! that dies with its parent thread lives exactly as long as its subject.

use std::time::Duration;

use super::marks::Marks;
use super::{CommandLimit, TickClock};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::{ExitsOfRun, Timing};

/// Something to measure: a scenario with a guest, or one of the host's floors.
///
/// All subjects of a command exist at the same time and take turns. Between its turns a subject must be idle: if one of
/// its threads spins or polls then, it disturbs the measurement of the others.
pub trait Subject {
    /// The name in the report, e.g. `portio-wildcard-eventfd+int3`.
    fn name(&self) -> &str;

    /// Where and how the subject runs; the report prints it.
    fn setting(&self) -> SubjectSetting {
        SubjectSetting::default()
    }

    /// The processes, other than this one, that work for the subject. Their CPU time is counted as well.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Performs `ops` operations and measures them from inside.
    ///
    /// It must end soon after [`CommandLimit::is_run_over`](super::CommandLimit::is_run_over) says so.
    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError>;
}

/// Where and how a subject runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectSetting {
    /// How the two sides of a heavy exit wait for each other; `None` where there are no heavy exits.
    pub spin: Option<SpinPolicy>,
    /// The CPUs that the subject pins its threads to, the CPU of the measured side first.
    pub cpus: Vec<usize>,
    /// What counts the subject's events; `None` if no events are counted.
    pub counter: Option<String>,
    /// What a reader must know to understand the subject's exits.
    pub exits_note: Option<String>,
}

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSample {
    /// How many operations were performed.
    pub ops: u64,
    /// The time of all operations together, in nanoseconds.
    pub elapsed_ns: f64,
    /// Exits answered below the VMM during the operations; `None` for floors, and if the backend cannot count them.
    pub light: Option<u64>,
    /// Exits answered by the VMM during the operations; 0 for floors.
    pub heavy: u64,
    /// Single latencies in nanoseconds if each operation is timed by itself, otherwise empty.
    pub latencies_ns: Vec<u64>,
    /// All exits that the guest causes, if light and heavy ones are not distinguished.
    pub exits: Option<u64>,
    /// By how many bytes one operation increased the memory of all processes, if that was measured.
    pub memory: Option<u64>,
    /// By how many bytes one operation increased what the kernel keeps for these processes, if that was measured.
    pub kernel_memory: Option<u64>,
    /// What the host or the backend counted during the run, as names and counts.
    pub events: Vec<(String, u64)>,
    /// What the subject itself counted, as names and counts.
    pub counts: Vec<(String, u64)>,
}

impl RunSample {
    /// The run's exits as a report counts them.
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    pub(crate) fn exits_of_run(&self) -> ExitsOfRun {
        let operations = self.ops as f64;
        match self.exits {
            Some(all) => ExitsOfRun {
                operations,
                total: Some(all),
                userspace: None,
            },
            None => ExitsOfRun {
                operations,
                total: self.light.map(|light| light + self.heavy),
                userspace: Some(self.heavy),
            },
        }
    }

    /// The run's nanoseconds per operation: the median of its latencies if there are any (so that one late wake-up has
    /// no effect), otherwise its time divided by its operations.
    #[allow(
        clippy::cast_precision_loss,
        reason = "neither count nor nanoseconds reach 2^53"
    )]
    pub fn ns_per_op(&self) -> f64 {
        if self.latencies_ns.is_empty() {
            return self.elapsed_ns / self.ops.max(1) as f64;
        }
        let latencies: Vec<f64> = self.latencies_ns.iter().map(|ns| *ns as f64).collect();
        vmbell_statistics::median(&latencies).unwrap_or_default()
    }
}

/// A run's time in nanoseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "a run takes far less than 2^53 ns"
)]
pub(crate) fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Why a subject could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// The host or the backend cannot run the subject: its row is reported as skipped, with the reason.
    #[error("{0}")]
    Skipped(String),
    /// The subject failed: its row is reported as failed.
    #[error("{subject} failed")]
    Failed {
        /// The subject's name.
        subject: String,
        /// Why the subject failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The time limit of the whole command or of a run was reached.
    #[error("{subject} was still running at the time limit")]
    TimedOut {
        /// The subject's name.
        subject: String,
    },
}

impl SubjectError {
    /// Makes the error that `subject` failed because of `source`, an error or a sentence.
    pub fn failed(
        subject: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed {
            subject: subject.into(),
            source: source.into(),
        }
    }
}

/// The options of a bench command, which it passes to every [`BenchEntry`](super::BenchEntry)'s factory.
#[derive(Clone, Debug)]
pub struct SubjectOptions {
    /// The CPUs to pin to, never empty: the first for the measured side (the vCPU), the second, if there is one, for
    /// the other side (the VMM, a consumer).
    pub cpus: Vec<usize>,
    /// How the two sides of a heavy exit wait for each other, unless the scenario's name says otherwise.
    pub spin: SpinPolicy,
    /// Converts the guest's time stamps to nanoseconds.
    pub clock: TickClock,
    /// When to stop early.
    pub limit: CommandLimit,
    /// What one nanosecond of the clock means.
    pub timing: Timing,
    /// Where marks are written around two extra runs of each subject, if a hypervisor counts this machine's exits.
    pub marks: Option<Marks>,
}

impl SubjectOptions {
    /// The CPU of the measured side.
    pub fn first_cpu(&self) -> usize {
        self.cpus.first().copied().unwrap_or_default()
    }

    /// The CPU of the other side; `None` if there is no second one.
    pub fn second_cpu(&self) -> Option<usize> {
        self.cpus
            .get(1)
            .copied()
            .filter(|cpu| *cpu != self.first_cpu())
    }

    /// Both CPUs, or an error. If one of two sides waits without sleeping, they cannot be measured on one CPU: each
    /// would wait for the scheduler.
    pub fn two_cpus(&self) -> Result<(usize, usize), SubjectError> {
        let first = self.first_cpu();
        match self.second_cpu() {
            Some(second) => Ok((first, second)),
            None => Err(SubjectError::Skipped(format!(
                "needs two CPUs, and may use only CPU {first}"
            ))),
        }
    }
}
