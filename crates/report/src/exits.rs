//! Exits per operation: defined here, and computed here from what each run counted.
//!
//! An exit is a moment at which the guest leaves the CPU because of what it does. Exits for interrupts of the host
//! itself are not counted ([`is_of_host`]). Some of the counted exits reach the VMM's process; the kernel, or its
//! replacement, answers the others. Each number of a row is the median over its runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::units::thousandths;
use vmbell_statistics::median;

/// The kernel's reasons for exits that a host interrupt causes, by Intel's and AMD's names: interrupts (KVM's statistic
/// `irq_exits`), NMIs, and exits at which KVM waits until a guest that masked interrupts can take one.
const OF_HOST: [&str; 7] = [
    "EXTERNAL_INTERRUPT",
    "NMI",
    "INTERRUPT_WINDOW",
    "PENDING_INTERRUPT",
    "interrupt",
    "nmi",
    "vintr",
];
/// KVM's statistic of exits for host interrupts.
const IRQ_EXITS: &str = "irq_exits";
/// The kernel's reason for a return to the VMM because of a signal, which no exit of the guest caused.
const SIGNAL: &str = "restart";

/// Whether an event counts exits for host interrupts: a reason of `kvm:kvm_exit`, or KVM's statistic.
pub fn is_of_host(event: &str) -> bool {
    let reason = event.rsplit_once(':').map_or(event, |(_, reason)| reason);
    reason == IRQ_EXITS || OF_HOST.contains(&reason)
}

/// Exits per operation of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Exits {
    /// All exits; `None` if those below the VMM cannot be counted.
    pub total: Option<f64>,
    /// The number of exits that reached the VMM; `None` if they are not told from the others.
    pub userspace: Option<f64>,
}

/// What one run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExitsOfRun {
    /// The number of operations in the run.
    pub operations: f64,
    /// All exits; `None` if those below the VMM cannot be counted.
    pub total: Option<u64>,
    /// The number of exits that reached the VMM; `None` if they cannot be told from the others.
    pub userspace: Option<u64>,
}

impl Exits {
    /// Exits per operation: the median over runs, rounded to a thousandth. `None` if not every run counted them, or if
    /// there are no runs.
    pub fn of(runs: &[ExitsOfRun]) -> Option<Self> {
        #[allow(clippy::cast_precision_loss, reason = "far fewer exits than 2^53")]
        let per_operation = |pick: fn(&ExitsOfRun) -> Option<u64>| {
            let one = |run: &ExitsOfRun| Some(pick(run)? as f64 / run.operations.max(1.0));
            let each: Option<Vec<f64>> = runs.iter().map(one).collect();
            median(&each?).map(thousandths)
        };
        let exits = Self {
            total: per_operation(|run| run.total),
            userspace: per_operation(|run| run.userspace),
        };
        (exits != Self::default()).then_some(exits)
    }

    /// Exits that were answered below the VMM, if they can be told from the others. An exit that goes to the VMM in
    /// several pieces returns more than once, so there may be fewer exits than returns.
    pub fn light(self) -> Option<f64> {
        Some(thousandths((self.total? - self.userspace?).max(0.0)))
    }
}

/// All exits of a row by the kernel's reasons, per operation: the mean over runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExitReasons {
    /// How often the guest exited to the kernel, including for the host's interrupts.
    pub kvm_exit: BTreeMap<String, f64>,
    /// How often the kernel returned to the VMM, including for signals.
    pub kvm_userspace_exit: BTreeMap<String, f64>,
}

/// How often each reason occurred.
pub type Reasons = BTreeMap<String, u64>;

/// What one run counted by the kernel's reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonsOfRun {
    /// Exits of the guest.
    pub exits: Reasons,
    /// Returns to the VMM.
    pub userspace: Reasons,
}

impl ReasonsOfRun {
    /// The exits and returns that the guest caused in a run with this number of operations.
    pub fn caused(&self, operations: f64) -> ExitsOfRun {
        let sum = |reasons: &Reasons, is_left_out: fn(&str) -> bool| {
            let kept = reasons.iter().filter(|(reason, _)| !is_left_out(reason));
            kept.map(|(_, count)| count).sum()
        };
        ExitsOfRun {
            operations,
            total: Some(sum(&self.exits, |reason| OF_HOST.contains(&reason))),
            userspace: Some(sum(&self.userspace, |reason| reason == SIGNAL)),
        }
    }
}

impl ExitReasons {
    /// The reasons over several runs, each with its number of operations.
    pub fn of(runs: &[(&ReasonsOfRun, f64)]) -> Self {
        let operations: f64 = runs.iter().map(|(_, operations)| operations).sum();
        #[allow(clippy::cast_precision_loss, reason = "far fewer exits than 2^53")]
        let means = |pick: fn(&ReasonsOfRun) -> &Reasons| {
            let mut sums: BTreeMap<String, f64> = BTreeMap::new();
            for (reason, count) in runs.iter().flat_map(|(run, _)| pick(run)) {
                *sums.entry(reason.clone()).or_default() += *count as f64;
            }
            let mean = |(reason, sum)| (reason, thousandths(sum / operations.max(1.0)));
            sums.into_iter().map(mean).collect()
        };
        Self {
            kvm_exit: means(|run| &run.exits),
            kvm_userspace_exit: means(|run| &run.userspace),
        }
    }
}

#[cfg(test)]
#[path = "exits_test.rs"]
mod tests;
