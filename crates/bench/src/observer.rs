//! The observer of a run, such as a progress bar.

use super::Sample;
use vmbell_report::Status;

/// What the runner is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the subjects, and finding how many operations fill a run.
    Calibrate,
    /// Runs whose samples are thrown away.
    WarmUp,
    /// Runs whose samples are kept.
    Measure,
}

/// Is called at every step, on the measuring thread and outside the timed part.
pub trait Observer {
    /// A phase of `steps` steps begins.
    fn phase(&mut self, _phase: Phase, _steps: u64) {}

    /// A step of the phase is over; `sample` is what it measured, if it measured anything.
    fn step(&mut self, _name: &str, _sample: Option<&Sample>) {}

    /// The subject `name` is not measured any more, for `reason`.
    fn lost(&mut self, _name: &str, _status: Status, _reason: &str) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}
