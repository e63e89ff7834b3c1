//! Who watches a run: progress bars, and nobody.

use vmbell_report::Status;

/// What the runner is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Makes subjects and finds out how many operations fill a run.
    Calibrate,
    /// Runs whose samples are thrown away.
    WarmUp,
    /// Runs that count.
    Measure,
}

/// Hears of every step, on the measuring thread, outside what is timed.
pub trait Observer {
    /// A phase of `steps` steps begins.
    fn phase(&mut self, _phase: Phase, _steps: u64) {}

    /// A step of the phase is over; `ns_per_op` is what it measured.
    fn step(&mut self, _name: &str, _ns_per_op: Option<f64>) {}

    /// A subject will not be measured.
    fn lost(&mut self, _name: &str, _status: Status, _reason: &str) {}
}

/// Looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
