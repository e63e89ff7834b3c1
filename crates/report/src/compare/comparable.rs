//! How reports differ apart from their numbers, and which differences forbid a comparison.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::Report;
use crate::text::visible;

/// The prefix of [`Difference::what`] for the version of a VMM; the VMM's name follows.
pub(crate) const VERSION_OF: &str = "version of ";

/// The prefix of [`Difference::what`] for a parameter of KVM's modules; the parameter's name follows.
const PARAMETER: &str = "KVM's parameter ";

/// Something that the reports of both sides should have in common, but do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs, in words.
    pub what: String,
    /// The old reports' values, each once.
    pub old: Vec<String>,
    /// The new reports' values, each once.
    pub new: Vec<String>,
    /// Whether the difference makes the numbers incomparable.
    pub refused: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = |values: &[String]| match values {
            [] => "unknown".to_owned(),
            values => visible(&values.join(" and ")),
        };
        let (old, new) = (values(&self.old), values(&self.new));
        let what = visible(&self.what);
        if old == new {
            write!(f, "{what}: {old} on both sides")
        } else if [&old, &new].iter().any(|value| value.contains([',', ';'])) {
            // Quoted: a value such as the mitigation of a vulnerability has parts, which would run into the other
            // value.
            write!(f, "{what}: '{old}' before, '{new}' now")
        } else {
            write!(f, "{what}: {old} before, {new} now")
        }
    }
}

/// What a report says about itself: a value for each thing that reports should have in common.
type Facts = BTreeMap<Fact, String>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fact {
    /// Whether a difference is only shown. Facts whose difference forbids a comparison sort first.
    is_shown_only: bool,
    what: String,
}

/// The differences, those that forbid a comparison first. With `is_exact`, a different kernel or VMM version also
/// forbids a comparison.
pub(crate) fn differences(old: &[Report], new: &[Report], is_exact: bool) -> Vec<Difference> {
    let (old, new) = (collected(old, is_exact), collected(new, is_exact));
    let mut whats: Vec<&Fact> = old.keys().chain(new.keys()).collect();
    whats.sort();
    whats.dedup();
    let mut differences = Vec::new();
    // Kernels differ in which parameters they have; a line for each would hide the other differences.
    let mut lone: [Vec<String>; 2] = Default::default();
    for what in whats {
        let values = |side: &BTreeMap<Fact, Vec<String>>| side.get(what).cloned();
        let (old, new) = (values(&old), values(&new));
        // A fact about a backend that only one side has is ignored: the backend's rows have no partner.
        if !what.is_shown_only && (old.is_none() || new.is_none()) {
            continue;
        }
        let side = match (&old, &new) {
            (Some(_), None) => Some(0),
            (None, Some(_)) => Some(1),
            _ => None,
        };
        if let (Some(name), Some(side)) = (what.what.strip_prefix(PARAMETER), side) {
            lone[side].push(name.to_owned());
            continue;
        }
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        if old != new || old.len() > 1 {
            differences.push(Difference {
                what: what.what.clone(),
                old,
                new,
                refused: !what.is_shown_only,
            });
        }
    }
    if lone.iter().any(|names| !names.is_empty()) {
        let [old, new] = lone.map(|names| match names.is_empty() {
            true => vec!["none".to_owned()],
            false => names,
        });
        differences.push(Difference {
            what: "KVM's parameters that only one side has".to_owned(),
            old,
            new,
            refused: false,
        });
    }
    differences
}

/// The facts of all reports, each value once.
fn collected(reports: &[Report], is_exact: bool) -> BTreeMap<Fact, Vec<String>> {
    let mut all: BTreeMap<Fact, Vec<String>> = BTreeMap::new();
    for (fact, value) in reports.iter().flat_map(|report| facts(report, is_exact)) {
        let values = all.entry(fact).or_default();
        if !values.contains(&value) {
            values.push(value);
            values.sort();
        }
    }
    all
}

fn facts(report: &Report, is_exact: bool) -> Facts {
    let mut facts = Facts::new();
    let mut refused = |what: &str, value: &str| add(&mut facts, false, what, value);
    refused("tool", &report.tool.name);
    refused("CPU", &report.host.cpu);
    refused("architecture", &report.host.arch);
    refused("unit", report.timing.name());
    for (backend, spin) in spins(report) {
        refused(&format!("spin policy of {backend}"), &spin);
    }
    for backend in &report.backends {
        let mode = kernel_mode(backend.emulates_kernel_mode);
        refused(&format!("guest's kernel mode on {}", backend.name), mode);
    }
    for vmm in report.vmms() {
        refused(
            &format!("guest's CPU under {}", vmm.name),
            kernel_mode(vmm.emulated),
        );
    }
    if let Some(work) = report.work() {
        refused("work", &format!("{} ({})", work.text, work.operation));
    }
    let mut exact = |what: &str, value: &str| add(&mut facts, !is_exact, what, value);
    exact("kernel", &report.host.kernel);
    // A VMM that failed has no known version.
    let unknown = (!is_exact).then_some("unknown");
    for vmm in report.vmms() {
        if let Some(version) = vmm.version.as_deref().or(unknown) {
            exact(&format!("{VERSION_OF}{}", vmm.name), version);
        }
    }
    shown(report, &mut facts);
    facts
}

fn add(facts: &mut Facts, is_shown_only: bool, what: &str, value: &str) {
    let what = what.to_owned();
    let fact = Fact {
        is_shown_only,
        what,
    };
    facts.insert(fact, value.to_owned());
}

/// Adds facts that may be the very subject of the comparison.
fn shown(report: &Report, facts: &mut Facts) {
    let mut shown = |what: &str, value: &str| add(facts, true, what, value);
    let host = &report.host;
    shown("CPUs online", &host.cpus.to_string());
    let yes_or_no = |yes: bool| if yes { "on" } else { "off" };
    for (what, value) in [
        ("microcode", host.microcode.as_deref()),
        ("governor", host.governor.as_deref()),
        ("hypervisor", host.hypervisor.as_deref()),
        ("SMT", host.smt.map(yes_or_no)),
    ] {
        shown(what, value.unwrap_or("none or unknown"));
    }
    for (name, text) in &host.mitigations {
        shown(&format!("mitigation of {name}"), text);
    }
    for (name, text) in &host.kvm_params {
        shown(&format!("{PARAMETER}{name}"), text);
    }
    let git = report.tool.git.as_deref().unwrap_or("no git revision");
    shown("version", &format!("{} ({git})", report.tool.version));
    let pinned: Vec<String> = report.cpus.iter().map(ToString::to_string).collect();
    shown("pinned to", &pinned.join(","));
    let length = match report.plan.ops {
        Some(ops) => crate::units::plural(ops, "operation"),
        None => crate::units::time(report.plan.min_time * 1e9),
    };
    shown("length of a run", &length);
}

/// For each backend, the spin policies of its rows that have one. Rows whose name fixes the policy are left out.
fn spins(report: &Report) -> BTreeMap<String, String> {
    let mut spins: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let chosen = report.results.iter().filter(|row| {
        let is_fixed = row.command.split(',').next().unwrap_or_default();
        row.is_ok() && !is_fixed.ends_with("+spin")
    });
    for row in chosen {
        if let Some(spin) = &row.setting.spin {
            let spins = spins.entry(row.backend.clone()).or_default();
            if !spins.contains(&spin.as_str()) {
                spins.push(spin);
            }
        }
    }
    let joined = |(backend, mut spins): (String, Vec<&str>)| {
        spins.sort_unstable();
        (backend, spins.join(", "))
    };
    spins.into_iter().map(joined).collect()
}

const fn kernel_mode(is_emulated: bool) -> &'static str {
    if is_emulated {
        "emulated"
    } else {
        "run by the CPU"
    }
}

#[cfg(test)]
#[path = "comparable_test.rs"]
mod tests;
