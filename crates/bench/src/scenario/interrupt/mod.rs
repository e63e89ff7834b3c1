//! Interrupts from the host to the guest: how long one takes, and what its end costs.

mod all;
mod arrival;
mod case;
mod ends;
mod ipi;
mod level;
mod raise;

use std::sync::Arc;

use super::scan::Scan;
use crate::{Entry, Options, Remarks, Subject, SubjectError};
use case::{Case, Lowered};
use ends::Ends;
use ipi::Ipi;
use level::Level;
use raise::Raise;
use vmbell_hypervisor::{Capability, Hypervisor, Support};
use vmbell_report::Group;

/// All interrupt scenarios of this backend. Those with several vCPUs are there once for each number of them in `scan`.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &Scan) -> Vec<Entry> {
    let entry = |case: Case| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &Options| make(&*hypervisor, case, options);
        let remarks = Remarks {
            resolution: case.is_an_end().then_some(ends::RESOLUTION),
            ..Remarks::default()
        };
        let entry = Entry::new(Group::Scenario, case.name(), case.description(), make)
            .with_remarks(remarks);
        match case.reference() {
            Some(reference) => entry.with_reference(reference.name()),
            None => entry,
        }
    };
    let alone = Case::all().map(entry);
    alone.chain(all::entries(hypervisor, scan)).collect()
}

/// Whether the scenario of this name needs two CPUs.
pub(super) fn needs_two_cpus(name: &str) -> bool {
    let mut cases = Case::all().filter(|case| case.needs_two_cpus());
    cases.any(|case| case.name() == name)
}

fn make(
    hypervisor: &dyn Hypervisor,
    case: Case,
    options: &Options,
) -> Result<Box<dyn Subject>, SubjectError> {
    if let Support::No(reason) = hypervisor.support(Capability::Interrupts) {
        return Err(SubjectError::Skipped(reason));
    }
    if case.is_about_the_end()
        && let Support::No(reason) = hypervisor.support(Capability::EndOfInterrupt)
    {
        return Err(SubjectError::Skipped(reason));
    }
    if case == Case::Level(Lowered::Forwarded)
        && let Support::No(reason) = hypervisor.support(Capability::ForwardedLines)
    {
        return Err(SubjectError::Skipped(reason));
    }
    if case.needs_two_cpus() {
        options.two_cpus()?;
    }
    Ok(match case {
        Case::Irqfd { .. } | Case::Msi { .. } => Box::new(Raise::new(hypervisor, case, options)?),
        Case::Eoi(_) | Case::SelfIpi => Box::new(Ends::new(hypervisor, case, options)?),
        Case::Ipi => Box::new(Ipi::new(hypervisor, options)?),
        Case::Level(_) => Box::new(Level::new(hypervisor, case, options)?),
    })
}
