//! Interrupts from the host to the guest: how long one takes, and what its EOI costs.

mod all;
mod arrival;
mod case;
mod ends;
mod ipi;
mod level;
mod raise;

use std::sync::Arc;

use super::scan::ScanValues;
use crate::{BenchEntry, Remarks, Subject, SubjectError, SubjectOptions};
use case::{InterruptCase, Lowered};
use ends::EoiScenario;
use ipi::IpiScenario;
use level::LevelScenario;
use raise::RaiseScenario;
use vmbell_hypervisor::{Capability, Hypervisor, Support};
use vmbell_report::Group;

/// All interrupt scenarios of this backend. Those with several vCPUs have an entry for each number of vCPUs in `scan`.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &ScanValues) -> Vec<BenchEntry> {
    let entry = |case: InterruptCase| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| make(&*hypervisor, case, options);
        let remarks = Remarks {
            resolution: case.is_an_end().then_some(ends::RESOLUTION),
            ..Remarks::default()
        };
        let entry = BenchEntry::new(Group::Scenario, case.name(), case.description(), make)
            .with_remarks(remarks);
        match case.reference() {
            Some(reference) => entry.with_reference(reference.name()),
            None => entry,
        }
    };
    let alone = InterruptCase::all().map(entry);
    alone.chain(all::entries(hypervisor, scan)).collect()
}

/// Whether the scenario of this name needs two CPUs.
pub(super) fn needs_two_cpus(name: &str) -> bool {
    let mut cases = InterruptCase::all().filter(|case| case.needs_two_cpus());
    cases.any(|case| case.name() == name)
}

fn make(
    hypervisor: &dyn Hypervisor,
    case: InterruptCase,
    options: &SubjectOptions,
) -> Result<Box<dyn Subject>, SubjectError> {
    if let Support::No(reason) = hypervisor.support(Capability::Interrupts) {
        return Err(SubjectError::Skipped(reason));
    }
    if case.is_about_the_end()
        && let Support::No(reason) = hypervisor.support(Capability::EndOfInterrupt)
    {
        return Err(SubjectError::Skipped(reason));
    }
    if case == InterruptCase::Level(Lowered::Forwarded)
        && let Support::No(reason) = hypervisor.support(Capability::ForwardedLines)
    {
        return Err(SubjectError::Skipped(reason));
    }
    if case.needs_two_cpus() {
        options.two_cpus()?;
    }
    Ok(match case {
        InterruptCase::Irqfd { .. } | InterruptCase::Msi { .. } => {
            Box::new(RaiseScenario::new(hypervisor, case, options)?)
        }
        InterruptCase::Eoi(_) | InterruptCase::SelfIpi => {
            Box::new(EoiScenario::new(hypervisor, case, options)?)
        }
        InterruptCase::Ipi => Box::new(IpiScenario::new(hypervisor, options)?),
        InterruptCase::Level(_) => Box::new(LevelScenario::new(hypervisor, case, options)?),
    })
}
