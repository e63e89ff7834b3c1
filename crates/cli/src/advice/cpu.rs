//! The CPU's clock, its sibling thread, and the kernel's mitigations.

use std::collections::BTreeMap;

use super::finding::{Finding, Severity};
use super::tree::HostFiles;
use vmbell_report::cpu_list;

const CPUS: &str = "/sys/devices/system/cpu";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Clocks that a program reads without a system call.
const CHEAP_CLOCKS: [&str; 5] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "xen",
    "arch_sys_counter",
];

/// What is found.
pub(super) fn find(tree: &HostFiles) -> Vec<Finding> {
    let mut found = governors(tree);
    found.extend(boost(tree));
    found.extend(clock(tree));
    found.extend(mitigations(tree));
    found
}

/// The CPUs by governor, one finding for each governor.
fn governors(tree: &HostFiles) -> Vec<Finding> {
    let mut by_governor: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for name in tree.names(CPUS) {
        let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else {
            continue;
        };
        let file = format!("{CPUS}/{name}/cpufreq/scaling_governor");
        match tree.line(&file) {
            Ok(Some(governor)) => by_governor.entry(governor).or_default().push(cpu),
            Ok(None) => {}
            Err(error) => {
                let whether = format!("the clock of CPU {cpu} follows its load");
                found.push(Finding::untold(&whether, &file, &error.to_string()));
            }
        }
    }
    by_governor.remove("performance");
    for (governor, mut cpus) in by_governor {
        cpus.sort_unstable();
        let fact = format!(
            "the governor of CPU {} is {governor}",
            cpu_list::Display(&cpus)
        );
        found.push(Finding::new(
            Severity::Distorts,
            (fact, format!("{CPUS}/cpu*/cpufreq/scaling_governor")),
            "the clock follows the load: a row that often sleeps is measured on a slower CPU than one that does not",
            "cpupower frequency-set --governor performance",
        ));
    }
    found
}

fn boost(tree: &HostFiles) -> Option<Finding> {
    let files = [
        ("cpufreq/boost", "1", "0"),
        ("intel_pstate/no_turbo", "0", "1"),
    ];
    files.into_iter().find_map(|(name, on, off)| {
        let file = format!("{CPUS}/{name}");
        let finding = match tree.line(&file) {
            Ok(value) if value.as_deref() == Some(on) => Finding::new(
                Severity::Distorts,
                ("the CPU's boost is on", file.clone()),
                "the boost depends on temperature and on the load of other cores, so two runs differ",
                &format!("echo {off} > {file}"),
            ),
            Ok(_) => return None,
            Err(error) => Finding::untold("the CPU's boost is on", &file, &error.to_string()),
        };
        Some(finding)
    })
}

fn clock(tree: &HostFiles) -> Option<Finding> {
    match tree.line(CLOCK) {
        Ok(Some(clock)) if !CHEAP_CLOCKS.contains(&clock.as_str()) => Some(Finding::new(
            Severity::Distorts,
            (format!("the kernel's clock is {clock}"), CLOCK),
            "each time stamp of the kernel or a program reads a slow device, because the kernel does not trust the TSC",
            "dmesg | grep -i -e tsc -e clocksource says why; clocksource=tsc on the kernel's command line overrides it",
        )),
        Ok(_) => None,
        Err(error) => Some(Finding::untold(
            "the kernel's clock is slow",
            CLOCK,
            &error.to_string(),
        )),
    }
}

/// What a mitigation does when a guest is entered or left, by words in the kernel's text.
const ACTS: [(&str, &str, &str); 8] = [
    (
        "l1tf",
        "cache flushes",
        "the first-level cache may be flushed at each entry of a guest",
    ),
    (
        "l1tf",
        "L1D conditional",
        "the first-level cache may be flushed at each entry of a guest",
    ),
    (
        "mds",
        "Clear CPU buffers",
        "buffers are cleared (VERW) at each entry of a guest",
    ),
    (
        "mmio_stale_data",
        "Clear CPU buffers",
        "buffers are cleared (VERW) at entries of a guest",
    ),
    (
        "retbleed",
        "IBRS",
        "speculation is restricted by a slow MSR at each exit and system call",
    ),
    (
        "retbleed",
        "untrained return thunk",
        "returns in the kernel are slower at each exit and system call",
    ),
    (
        "spec_rstack_overflow",
        "Safe RET",
        "returns in the kernel are slower at each exit and system call",
    ),
    (
        "spec_rstack_overflow",
        "IBPB on VMEXIT",
        "the branch predictor is flushed at each exit of a guest",
    ),
];

fn mitigations(tree: &HostFiles) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, words, effect) in ACTS {
        let file = format!("{CPUS}/vulnerabilities/{name}");
        match tree.line(&file) {
            Ok(Some(text)) if text.starts_with("Mitigation") && text.contains(words) => {
                found.push(Finding::new(
                    Severity::Slows,
                    (format!("{name}: {text}"), file),
                    effect,
                    "leave it, and compare with hosts that have it too; mitigations=off on the kernel's command line takes the \
                     protection of the host from its guests away, and is for hosts whose guests are all trusted",
                ));
            }
            Ok(_) => {}
            Err(error) => {
                let whether = format!("{name} is mitigated");
                found.push(Finding::untold(&whether, &file, &error.to_string()));
            }
        }
    }
    found.dedup_by(|a, b| a.source == b.source);
    found
}

#[cfg(test)]
#[path = "cpu_test.rs"]
mod tests;
