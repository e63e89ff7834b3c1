//! A device of the host that the guest drives itself: what its interrupts and accesses to its registers cost, directly
//! and through the VMM.
//!
//! On x86-64 the device is QEMU's edu, on arm64 a PL031 clock; the lab has both
//! (`vmbell lab -- vmbell bench 'passthrough-*'`, `vmbell lab --arch aarch64 -- vmbell bench 'platform-irq-*'`).
//! The guest raises its interrupts by a store to a register. All rows share the device; their guests take turns.

mod assigned;
mod case;
mod hardware;
mod subjects;
mod turn;

use std::sync::Arc;

use crate::select::picks;
use crate::{BenchEntry, Remarks, Subject, SubjectError, SubjectOptions};
use case::PassthroughCase;
use subjects::{AccessScenario, InterruptScenario};
use turn::DeviceGuest;
use vmbell_hypervisor::{Hypervisor, Support};
use vmbell_report::Group;

/// What the exits of the interrupt rows do not include.
const NOTE: &str = "passthrough-intx-* and -msi-*: each interrupt of an assigned device is first one of the host, and exits \
                    for those are not counted";

/// All scenarios with an assigned device on this backend.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    let entry = |case: PassthroughCase| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| make(&*hypervisor, case, options);
        let remarks = Remarks {
            note: match case {
                PassthroughCase::Interrupt { .. } => Some(NOTE),
                PassthroughCase::Access { .. } | PassthroughCase::Platform(_) => None,
            },
            ..Remarks::default()
        };
        let entry = BenchEntry::new(Group::Scenario, case.name(), case.description(), make)
            .with_device(case.model().needed)
            .with_remarks(remarks);
        match case.reference() {
            Some(reference) => entry.with_reference(reference.name()),
            None => entry,
        }
    };
    PassthroughCase::ALL
        .into_iter()
        .filter(|case| case.is_here())
        .map(entry)
        .collect()
}

/// The devices of the entries that the names and globs match, as `vmbell lab --device` names, for every architecture.
pub fn devices(patterns: &[String]) -> Vec<&'static str> {
    let picked =
        |case: &PassthroughCase| patterns.iter().any(|pattern| picks(pattern, case.name()));
    let cases = PassthroughCase::ALL.into_iter().filter(picked);
    let mut names: Vec<_> = cases.map(|case| case.model().needed.name).collect();
    names.dedup();
    names
}

fn make(
    hypervisor: &dyn Hypervisor,
    case: PassthroughCase,
    options: &SubjectOptions,
) -> Result<Box<dyn Subject>, SubjectError> {
    let assigned = case.model().open(case.name())?;
    for capability in case.needs() {
        if let Support::No(reason) = hypervisor.support(*capability) {
            return Err(SubjectError::Skipped(reason));
        }
    }
    let owner = DeviceGuest::new(hypervisor, assigned, case, options)?;
    Ok(match case {
        PassthroughCase::Interrupt { .. } | PassthroughCase::Platform(_) => {
            Box::new(InterruptScenario(owner))
        }
        PassthroughCase::Access { store, .. } => Box::new(AccessScenario { owner, store }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(patterns: &[&str]) -> Vec<&'static str> {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        devices(&patterns)
    }

    #[test]
    fn names_and_globs_of_these_rows_need_their_device() {
        for pattern in ["passthrough-*", "*-irqfd", "passthrough-mmio-mapped+store"] {
            assert_eq!(of(&["ipi", pattern]), ["edu"], "{pattern}");
        }
        assert_eq!(of(&["platform-irq-*"]), ["pl031"]);
        assert_eq!(of(&["*"]), ["edu", "pl031"]);
    }

    #[test]
    fn other_rows_need_no_device() {
        assert!(of(&[]).is_empty());
        assert!(of(&["mmio-*", "floor-*", "passthrough", "msi-to-running"]).is_empty());
    }
}
