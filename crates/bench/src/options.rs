//! What a subject is made with.

use super::{Clock, Limit, SubjectError};
use vmbell::hypervisor::SpinPolicy;
use vmbell_report::Timing;

/// The choices of one bench command, handed to every [`Entry`](super::Entry)'s factory.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs to pin to, never empty: the measured side (the vCPU) takes the first, the other
    /// side (the VMM, a consumer) the second where there is one.
    pub cpus: Vec<usize>,
    /// How the two sides of a heavy exit wait for each other, unless a scenario's name says it.
    pub spin: SpinPolicy,
    /// Turns the guest's time stamps into nanoseconds.
    pub clock: Clock,
    /// When to give up.
    pub limit: Limit,
    /// What the clock's nanoseconds are.
    pub timing: Timing,
}

impl Options {
    /// Where the measured side runs.
    pub fn first_cpu(&self) -> usize {
        self.cpus.first().copied().unwrap_or_default()
    }

    /// Where the other side runs, if it may have a CPU of its own.
    pub fn second_cpu(&self) -> Option<usize> {
        self.cpus
            .get(1)
            .copied()
            .filter(|cpu| *cpu != self.first_cpu())
    }

    /// Both, for what is no measurement on one CPU: two sides of which one does not sleep while it
    /// waits would wait for the scheduler.
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
