//! `vmbell probe`'s advice: what on this host distorts or slows measurements, what that costs if it can be measured
//! now, and how to change it.
//!
//! Each group of findings reads the host's files through a [`HostFiles`]; nothing is changed.

mod cpu;
mod finding;
mod kvm;
mod load;
mod quota;
pub(crate) mod remedy;
mod tree;

use std::io::ErrorKind;
use std::path::Path;

pub(super) use self::finding::Finding;
use self::finding::Severity;
use self::tree::HostFiles;
use crate::backends::BackendProbe;
use vmbell_hypervisor::{Capability, Support};
use vmbell_report::{Block, Cell, Host, Warning};

/// What is known of the host already.
#[derive(Debug)]
pub(super) struct KnownHost<'a> {
    /// The host's facts.
    pub(super) host: &'a Host,
    /// Whether the CPU promises that the TSC has a constant frequency; `None` if the counter cannot be used.
    pub(super) invariant: Option<bool>,
    /// What each backend can do.
    pub(super) backends: &'a [BackendProbe],
}

/// Returns the findings on the host whose files are below `root`, worst first.
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

/// The findings that a report warns about, in the words of its warnings.
fn facts(known: &KnownHost<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let (load, cpus) = (known.host.load.unwrap_or_default(), known.host.cpus);
    if Warning::is_busy(load, cpus) {
        found.push(Finding::new(
            Severity::Distorts,
            (Warning::Loaded { load, cpus }.to_string(), "/proc/loadavg"),
            "other programs use the CPUs that are measured on",
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
                    format!("backend {backend}"),
                ),
                "the rows that need it are skipped, each with the reason",
                "`vmbell probe -v` has the reason next to its name",
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

/// Each finding with what it does and how to change it.
pub(super) fn blocks(found: &[Finding]) -> Vec<Block> {
    let finding = |finding: &Finding| {
        let cost = match (&finding.cost, finding.severity) {
            (Some(cost), _) => format!("; cost: {cost}"),
            (None, Severity::Distorts | Severity::Slows) => "; cost: not measured".to_owned(),
            (None, Severity::Unknown | Severity::Note) => String::new(),
        };
        let details = format!("{}{cost}; to change it: {}", finding.effect, finding.remedy);
        let source = format!(" ({})", finding.source);
        Block::Detail(Cell::from(fact(finding) + &source), details)
    };
    titled(found)
        .into_iter()
        .chain(found.iter().map(finding))
        .collect()
}

/// The first findings that are more than notes, each with how to change it, and the number of the others.
pub(super) fn brief(found: &[Finding], most: usize) -> (Vec<Block>, usize) {
    let worse = found
        .iter()
        .filter(|finding| finding.severity != Severity::Note);
    let shown = worse.take(most);
    let shown =
        shown.map(|finding| Block::Detail(Cell::from(fact(finding)), finding.remedy.clone()));
    let shown: Vec<Block> = shown.collect();
    let others = found.len() - shown.len();
    (titled(found).into_iter().chain(shown).collect(), others)
}

fn fact(finding: &Finding) -> String {
    format!("{}: {}", finding.severity.word(), finding.fact)
}

/// The heading of the findings.
fn titled(found: &[Finding]) -> [Block; 1] {
    [Block::text(match found.is_empty() {
        true => "advice: nothing was found that distorts or slows what is measured",
        false => "advice",
    })]
}

#[cfg(test)]
#[path = "advice_test.rs"]
mod tests;
