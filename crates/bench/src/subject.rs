//! What the runner measures: anything that performs an operation many times and says how long it took.
//!
//! A subject is made, used and dropped on the one thread that measures, so it need not be `Send`,
//! and a child process that dies with its parent thread lives exactly as long as its subject.

use std::error::Error;

use vmbell::hypervisor::SpinPolicy;

/// One thing to measure: a scenario on a guest, or one of the host's floors.
///
/// All subjects of a command exist at the same time, and take turns. Between its turns a subject
/// must be idle: a thread of it that spins or polls then is measured as part of the others.
pub trait Subject {
    /// The name in the report, e.g. `portio-wildcard-eventfd+int3`.
    fn name(&self) -> &str;

    /// Where and how it runs; the report prints it.
    fn setting(&self) -> Setting {
        Setting::default()
    }

    /// Processes other than this one that work for it, so that their CPU time is counted too.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Performs `ops` operations and measures them from inside.
    ///
    /// It must end soon after [`Limit::is_run_over`](super::Limit::is_run_over) says so.
    fn run(&mut self, ops: u64) -> Result<Sample, SubjectError>;
}

/// Where and how a subject runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `usermode`, or `host` where no guest takes part.
    pub backend: &'static str,
    /// How the two sides of a heavy exit wait for each other, if there are heavy exits at all.
    pub spin: Option<SpinPolicy>,
    /// The CPUs that it pins its threads to, the measured side first.
    pub cpus: Vec<usize>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            backend: "host",
            spin: None,
            cpus: Vec::new(),
        }
    }
}

/// One run's outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// How many operations were performed.
    pub ops: u64,
    /// Their time altogether, in nanoseconds.
    pub elapsed_ns: f64,
    /// Exits answered below the VMM during them; 0 for a floor.
    pub light: u64,
    /// Exits answered by the VMM during them; 0 for a floor.
    pub heavy: u64,
    /// Single latencies in nanoseconds where each operation is timed by itself, else empty.
    pub latencies_ns: Vec<u64>,
    /// Exits altogether, where nobody tells light ones from heavy ones.
    pub exits: Option<u64>,
    /// What the host or the backend counted during them, by name.
    pub events: Vec<(String, u64)>,
    /// What the subject itself counted, by name.
    pub counts: Vec<(String, u64)>,
}

impl Sample {
    /// What the run says about one operation: the median of its latencies where there are any
    /// (one late wake-up must not move it), else its time shared out over its operations.
    #[allow(
        clippy::cast_precision_loss,
        reason = "neither count nor nanoseconds reach 2^53"
    )]
    pub fn ns_per_op(&self) -> f64 {
        if self.latencies_ns.is_empty() {
            return self.elapsed_ns / self.ops.max(1) as f64;
        }
        let latencies: Vec<f64> = self.latencies_ns.iter().map(|ns| *ns as f64).collect();
        vmbell_report::statistics::median(&latencies).unwrap_or_default()
    }
}

/// Why a subject could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// The host or the backend cannot do it: the row is reported as skipped, with the reason.
    #[error("{0}")]
    Skipped(String),
    /// It went wrong: the row is reported as failed.
    #[error("{subject} failed")]
    Failed {
        /// Which.
        subject: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The time limit of the whole command ran out, or that of one run.
    #[error("{subject} was still running at the time limit")]
    TimedOut {
        /// Which.
        subject: String,
    },
}

impl SubjectError {
    /// `subject` failed because of `source`, an error or a sentence.
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

/// An error with all its causes, as the reason of a row.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
