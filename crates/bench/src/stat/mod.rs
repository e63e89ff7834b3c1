//! What happens to a guest that takes interrupts, with PV EOI off and on: the two entries of `vmbell bench eoi`.
//!
//! A guest with one vCPU halts until an edge (a message, or arm64's SPI) comes from an irqfd that another thread
//! signals. One operation is one interrupt. The backend counts the events, which are read before and after each run;
//! nothing is sampled.

mod counter;
mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use subject::{InterruptPace, SPARED, TAKEN};

use crate::{BenchEntry, Remarks, Subject, SubjectError, SubjectOptions};
use subject::EoiSubject;
use vmbell_hypervisor::{Capability, Hypervisor, Support};
use vmbell_report::Group;

/// The entry whose guest writes the EOI register for each interrupt.
pub const OFF: &str = "pv-eoi-off";
/// The entry whose guest uses PV EOI: it clears a bit in its memory if the bit is set, and writes the register
/// otherwise.
pub const ON: &str = "pv-eoi-on";
/// The parameter that holds the requested rate, in interrupts per second.
pub const RATE: &str = "rate";

/// The names of the events that are counted on `hypervisor`, from a guest that does nothing. Empty if only a running
/// guest shows them, or if no guest can be made.
pub fn event_names(hypervisor: &dyn Hypervisor, options: &SubjectOptions) -> BTreeSet<String> {
    let pace = InterruptPace::Lockstep;
    let subject = EoiSubject::new(hypervisor, OFF, false, pace, options);
    let names = subject
        .ok()
        .and_then(|mut subject| subject.event_names().ok());
    names.unwrap_or_default()
}

/// The entries on `hypervisor`, with interrupts at `pace`: both entries if there is PV EOI.
pub fn entries(hypervisor: &Arc<dyn Hypervisor>, pace: InterruptPace) -> Vec<BenchEntry> {
    let backend = hypervisor.name();
    let entry = |name: &'static str, description| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(Capability::Interrupts) {
                return Err(SubjectError::Skipped(reason));
            }
            let subject = EoiSubject::new(&*hypervisor, name, name == ON, pace, options)?;
            Ok(Box::new(subject))
        };
        let entry = BenchEntry::new(Group::Scenario, name, description, make);
        entry.on_backend(backend).with_remarks(Remarks {
            parameters: match pace {
                InterruptPace::Rate(rate) => BTreeMap::from([(RATE.to_owned(), rate.to_string())]),
                InterruptPace::Lockstep => BTreeMap::new(),
            },
            note: cfg!(target_arch = "aarch64")
                .then_some("arm64 has no paravirtual EOI, so there is nothing to compare with"),
            ..Remarks::default()
        })
    };
    let off = entry(OFF, "each interrupt ended by a write of the EOI register");
    if cfg!(target_arch = "aarch64") {
        // An arm64 guest can only write the register.
        return vec![off];
    }
    let on = entry(ON, "each interrupt ended by a bit in memory, if it is set");
    vec![off, on.with_reference(OFF)]
}
