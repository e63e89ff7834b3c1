//! The options that subjects are made with.

use super::{Clock, Limit, SubjectError};
use vmbell_hypervisor::SpinPolicy;
use vmbell_report::Timing;

/// The options of one bench command, which every [`Entry`](super::Entry)'s factory gets.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs to pin to, never empty: the measured side (the vCPU) takes the first, the other side
    /// (the VMM, a consumer) the second if there is one.
    pub cpus: Vec<usize>,
    /// How the two sides of a heavy exit wait for each other, unless the scenario's name says
    /// otherwise.
    pub spin: SpinPolicy,
    /// Converts the guest's time stamps to nanoseconds.
    pub clock: Clock,
    /// When to stop early.
    pub limit: Limit,
    /// What one nanosecond of the clock means.
    pub timing: Timing,
}

impl Options {
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

    /// Both CPUs, or an error. Two sides of which one does not sleep while it waits cannot be measured
    /// on one CPU: each would wait for the scheduler.
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
