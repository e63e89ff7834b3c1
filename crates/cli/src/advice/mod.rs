//! `vmbell probe`'s advice: what on this host distorts or slows what is measured, what that costs as far as it can be measured
//! here and now, and how to change it.
//!
//! Each family of findings reads the host's files through a [`HostFiles`]; nothing is changed.

mod cpu;
mod finding;
mod kvm;
mod load;
mod quota;
pub(crate) mod remedy;
mod tree;

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

pub(super) use self::finding::Finding;
use self::finding::Severity;
use self::tree::HostFiles;
use crate::backends::BackendProbe;
use vmbell_hypervisor::{Capability, Support};
use vmbell_report::{Host, Warning};

/// What is known of the host already.
#[derive(Debug)]
pub(super) struct KnownHost<'a> {
    /// Its facts.
    pub(super) host: &'a Host,
    /// Whether its counter is promised to keep its frequency; `None` if it cannot be used.
    pub(super) invariant: Option<bool>,
    /// What each backend can do.
    pub(super) backends: &'a [BackendProbe],
}

/// What is found on the host whose files are below `root`, the worst first.
pub(super) fn find(root: &Path, known: &KnownHost<'_>) -> Vec<Finding> {
    let tree = HostFiles::new(root);
    let mut found = load::find(&tree, &known.host.allowed_cpus);
    found.extend(cpu::find(&tree));
    found.extend(kvm::find(&tree, known.host.hypervisor.as_deref()));
    found.extend(device(&tree));
    found.extend(facts(known));
    found.sort_by_key(|finding| finding.severity);
    found
}

/// What the facts of a report say, in the words of its warnings.
fn facts(known: &KnownHost<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let (load, cpus) = (known.host.load.unwrap_or_default(), known.host.cpus);
    if Warning::is_busy(load, cpus) {
        found.push(Finding::new(
            Severity::Distorts,
            (Warning::Loaded { load, cpus }.to_string(), "/proc/loadavg"),
            "others take the CPUs from what is measured",
            "wait, or end the other programs",
        ));
    }
    if known.invariant == Some(false) {
        found.push(Finding::new(
            Severity::Distorts,
            (
                Warning::TscVaries.to_string(),
                "CPUID 0x80000007, EDX bit 8",
            ),
            "guests measure with this counter",
            "under a hypervisor: let it show an invariant TSC to this host",
        ));
    }
    for (backend, capabilities) in known.backends {
        let lacks = |(capability, support): &&(Capability, Support)| {
            matches!(support, Support::No(_)) && capability != &Capability::ForwardedInterrupts
        };
        let missing: Vec<&str> = capabilities
            .iter()
            .filter(lacks)
            .map(|(capability, _)| capability.name())
            .collect();
        if !missing.is_empty() && missing.len() < capabilities.len() {
            found.push(Finding::new(
                Severity::Note,
                (
                    format!("{backend} lacks {}", missing.join(", ")),
                    format!("backend {backend}, above"),
                ),
                "the rows that need it are skipped, each with the reason",
                "see the reason next to its name above",
            ));
        }
    }
    found
}

/// Whether `/dev/kvm` can be used.
fn device(tree: &HostFiles) -> Option<Finding> {
    match tree.opens("/dev/kvm") {
        Ok(()) => None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(Finding::new(
            Severity::Slows,
            ("this user may not open /dev/kvm", "/dev/kvm"),
            "only the usermode backend measures",
            "usermod --append --groups kvm $USER, and log in again",
        )),
        Err(error) => Some(Finding::new(
            Severity::Note,
            (format!("there is no KVM: {error}"), "/dev/kvm"),
            "only the usermode backend measures",
            "modprobe kvm_intel or kvm_amd where the CPU shows VMX or SVM; `vmbell lab -- vmbell bench` measures on real KVM anywhere",
        )),
    }
}

/// The lines of the text: each finding with what it does and how to change it.
pub(super) fn text(found: &[Finding]) -> String {
    let mut text = String::from("advice\n");
    if found.is_empty() {
        text.push_str("  nothing was found that distorts or slows what is measured\n");
    }
    for finding in found {
        let Finding {
            severity,
            fact,
            source,
            effect,
            cost,
            remedy,
        } = finding;
        let cost = match (cost, severity) {
            (Some(cost), _) => format!("; cost: {cost}"),
            (None, Severity::Distorts | Severity::Slows) => "; cost: not measured".to_owned(),
            (None, Severity::Unknown | Severity::Note) => String::new(),
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "  {:9} {fact} ({source})\n            {effect}{cost}\n            to change it: {remedy}\n",
            severity.word()
        );
    }
    text
}

#[cfg(test)]
#[path = "advice_test.rs"]
mod tests;
