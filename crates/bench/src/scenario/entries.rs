//! The list of scenarios by name: `{path}-{bell}`, with a suffix for a variant.

use std::sync::Arc;

use super::bare;
use super::case::{PathCase, PathVariant};
use super::creation;
use super::interrupt;
use super::notify::NotifyScenario;
use super::passthrough;
use super::path::RingConsumer::{
    self, AnyLength, Below, Coalesced, Datamatch, DeviceModel, Payload, Polled, Wildcard,
};
use super::path::RingInstruction::{self, Hypercall, KernelPort, Mmio, Portio, Vmcall, Word};
use super::rate::RateScenario;
use super::registration;
use super::scan::{ScanPoint, ScanValues};
use super::series;
use super::virtqueue;
use crate::cpuid;
use crate::select::HAS_PORTS;
use crate::{BenchEntry, Remarks, Subject, SubjectError, SubjectOptions};
use vmbell_hypervisor::{Hypervisor, Support};
use vmbell_report::{AddressSpace, Group};

const RATES: [(RingInstruction, RingConsumer, PathVariant); 27] = [
    (Portio, DeviceModel, PathVariant::Plain),
    (Portio, DeviceModel, PathVariant::Spin),
    (Portio, Wildcard, PathVariant::Plain),
    (Portio, Wildcard, PathVariant::Int3),
    (Portio, Wildcard, PathVariant::Jmp),
    (Portio, Datamatch, PathVariant::Plain),
    (Portio, Datamatch, PathVariant::Int3),
    (Portio, Datamatch, PathVariant::Jmp),
    (Portio, Payload, PathVariant::Plain),
    (Portio, AnyLength, PathVariant::Plain),
    (Mmio, DeviceModel, PathVariant::Plain),
    (Mmio, DeviceModel, PathVariant::Spin),
    (Mmio, Wildcard, PathVariant::Plain),
    (Mmio, Wildcard, PathVariant::Jmp),
    (Mmio, Datamatch, PathVariant::Plain),
    (Mmio, Datamatch, PathVariant::Jmp),
    (Mmio, Payload, PathVariant::Plain),
    (Mmio, AnyLength, PathVariant::Plain),
    (Mmio, Coalesced, PathVariant::Plain),
    (Hypercall, DeviceModel, PathVariant::Plain),
    (Hypercall, DeviceModel, PathVariant::Spin),
    (Hypercall, Wildcard, PathVariant::Plain),
    (Hypercall, Datamatch, PathVariant::Plain),
    (Hypercall, Payload, PathVariant::Plain),
    (Word, Polled, PathVariant::Plain),
    (KernelPort, Below, PathVariant::Plain),
    (Vmcall, Below, PathVariant::Plain),
];

const NOTIFIES: [(RingInstruction, RingConsumer, PathVariant); 8] = [
    (Portio, DeviceModel, PathVariant::Plain),
    (Portio, DeviceModel, PathVariant::Spin),
    (Portio, Wildcard, PathVariant::Plain),
    (Mmio, DeviceModel, PathVariant::Plain),
    (Mmio, Wildcard, PathVariant::Plain),
    (Hypercall, DeviceModel, PathVariant::Plain),
    (Hypercall, Wildcard, PathVariant::Plain),
    (Word, Polled, PathVariant::Plain),
];

/// Whether the scenario with this name needs two CPUs, on any backend.
pub(crate) fn needs_two_cpus(name: &str) -> bool {
    let cases = cases(&RATES, false).chain(cases(&NOTIFIES, true));
    let mut cases = cases.filter(|case| case.needs_two_cpus());
    cases.any(|case| case.name() == name)
        || interrupt::needs_two_cpus(name)
        || virtqueue::needs_two_cpus(name)
}

fn cases(
    rows: &[(RingInstruction, RingConsumer, PathVariant)],
    notify: bool,
) -> impl Iterator<Item = PathCase> {
    rows.iter().map(move |&(path, bell, variant)| PathCase {
        path,
        bell,
        variant,
        notify,
    })
}

/// All scenarios on this backend, and its cheapest exits. Ways to ring that the backend cannot have are left out. A
/// registration that the backend does not support has a row that says so.
///
/// A doorbell that the guest rings back to back has an entry for each combination of the values of `scan`. Each is
/// compared with the first combination.
pub fn entries(hypervisor: &Arc<dyn Hypervisor>, scan: &ScanValues) -> Vec<BenchEntry> {
    let offered = |case: &PathCase| {
        let extra = case.extra();
        case.path.is_here()
            && extra.is_none_or(|capability| hypervisor.support(capability).is_yes())
    };
    let mut entries: Vec<BenchEntry> = cases(&RATES, false)
        .chain(cases(&NOTIFIES, true))
        .filter(offered)
        .flat_map(|case| scanned(hypervisor, case, scan))
        .collect();
    entries.extend(interrupt::entries(hypervisor, scan));
    entries.extend(virtqueue::entries(hypervisor));
    entries.extend(passthrough::entries(hypervisor));
    entries.extend(registration::entries(hypervisor));
    entries.extend(series::entries(hypervisor, scan));
    entries.extend(creation::entries(hypervisor));
    entries.extend(bare::entries(hypervisor));
    let backend = hypervisor.name();
    entries
        .into_iter()
        .map(|entry| entry.on_backend(backend))
        .collect()
}

/// The entries of a case: one, or one for each combination of the scanned values.
fn scanned(hypervisor: &Arc<dyn Hypervisor>, case: PathCase, scan: &ScanValues) -> Vec<BenchEntry> {
    if case.notify
        || matches!(case.bell, Polled | Below | Coalesced)
        || *scan == ScanValues::default()
    {
        return vec![entry(hypervisor, case, ScanPoint::default())];
    }
    let mut first: Option<String> = None;
    let of = |scale: ScanPoint| {
        let mut entry = entry(hypervisor, case, scale);
        for (name, value) in scale.parameters() {
            entry = entry.with_parameter(name, value);
        }
        match &first {
            Some(first) => entry.with_reference(first),
            None => {
                first = Some(entry.name().to_owned());
                entry.without_reference()
            }
        }
    };
    scan.scales().into_iter().map(of).collect()
}

fn entry(hypervisor: &Arc<dyn Hypervisor>, case: PathCase, scale: ScanPoint) -> BenchEntry {
    let name = case.name();
    let is_kvm = hypervisor.name() == "kvm";
    let (hypervisor, subject) = (Arc::clone(hypervisor), name.clone());
    let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
        if let Support::No(reason) = hypervisor.support(case.path.needs(case.bell)) {
            return Err(SubjectError::Skipped(reason));
        }
        if case.needs_two_cpus() {
            options.two_cpus()?;
        }
        Ok(if case.notify {
            Box::new(NotifyScenario::new(&*hypervisor, &subject, case, options)?)
        } else {
            Box::new(RateScenario::new(
                &*hypervisor,
                &subject,
                case,
                scale,
                options,
            )?)
        })
    };
    let address_space = match case.path {
        Portio if !case.notify => Some(AddressSpace::Pio),
        Mmio if !case.notify => Some(AddressSpace::Mmio),
        _ => None,
    };
    let remarks = Remarks {
        address_space,
        note: note(case, is_kvm, cpuid::is_amd()),
        ..Remarks::default()
    };
    let entry =
        BenchEntry::new(Group::Scenario, name, description(case), make).with_remarks(remarks);
    match (case.notify, case.path) {
        (true, Word) => {
            let path = Hypercall;
            entry.with_reference(PathCase { path, ..case }.plain().name())
        }
        (true, _) if case.bell == DeviceModel && case.variant == PathVariant::Plain => entry,
        (true, _) => entry.with_reference(case.plain().name()),
        (false, _) => entry,
    }
}

/// What to know when a case is compared with others.
fn note(case: PathCase, is_kvm: bool, is_amd: bool) -> Option<&'static str> {
    match case.bell {
        _ if case.notify && case.bell.datamatch(case.path).is_some() => Some(
            "notify-*-eventfd wakes another thread, which notify-*-no-eventfd does not: there the vCPU's own \
             exit brings the ring",
        ),
        AnyLength if case.path != Mmio => None,
        AnyLength if is_kvm && HAS_PORTS && is_amd => Some(
            "mmio-any-length-eventfd: with AMD's SVM KVM decodes the store, whatever the ioeventfd's length; with Intel's \
             VMX it would not",
        ),
        AnyLength if is_kvm && HAS_PORTS => Some(
            "mmio-any-length-eventfd: with Intel's VMX KVM does not decode the store if the ioeventfd is for any length",
        ),
        _ => None,
    }
}

fn description(case: PathCase) -> String {
    let guest = match case.path {
        Portio => "out of 4 bytes",
        Mmio => "store of 4 bytes",
        Hypercall => "call of the hypercall page",
        Word => "atomic add to a word in shared memory",
        KernelPort => "out of 1 byte",
        Vmcall => "the CPU's hypercall instruction",
    };
    let host = match case.bell {
        DeviceModel => "handled by a device model in the VMM",
        Wildcard => "signals an eventfd, with any value",
        Datamatch => "signals an eventfd if the value is right",
        Payload => "is stored and signals an eventfd, with any value",
        AnyLength => "signals an eventfd, with any value and width",
        Coalesced => "kept back by the kernel for a device model in the VMM",
        Polled => "watched by a poller",
        Below => "handled in the kernel, which signals no eventfd",
    };
    let variant = case.variant.description();
    if case.notify {
        format!("from the guest's {guest} to the waiting thread: {host}{variant}")
    } else {
        format!("{guest}, {host}{variant}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_on_any_length_depends_on_the_cpus_vendor_and_only_kvm_has_it() {
        let note = |path, bell, is_kvm, is_amd| {
            let case = PathCase {
                path,
                bell,
                variant: PathVariant::Plain,
                notify: false,
            };
            note(case, is_kvm, is_amd).unwrap_or_default()
        };
        let amd = note(Mmio, AnyLength, true, true);
        let intel = note(Mmio, AnyLength, true, false);
        // arm64's CPU reports the size of a store.
        assert_eq!(amd.contains("SVM KVM decodes the store"), HAS_PORTS);
        assert_eq!(intel.contains("VMX KVM does not decode"), HAS_PORTS);
        assert_eq!(note(Mmio, AnyLength, false, true), "");
        assert_eq!(note(Mmio, Wildcard, true, false), "");
        assert_eq!(note(Portio, AnyLength, true, false), "");
    }
}
