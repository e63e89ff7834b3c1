//! The baselines of a plan: each machine has a report with the figures of its boots, in a file next to the plan.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use vmbell_report::{Report, Timing, visible};

use super::plan::{GateMachine, GatePlan};
use crate::compare;

/// The file of a machine's baseline: `vmbell-gate.debian_6.12.json` next to `vmbell-gate.toml`.
pub(super) fn path(plan: &Path, machine: &GateMachine) -> PathBuf {
    plan.with_extension(format!("{}.json", file_name(machine)))
}

/// Reads a machine's baseline, which must have figures of each VMM in the plan.
pub(super) fn read(plan: &GatePlan, path: &Path, machine: &GateMachine) -> Result<Report> {
    let baseline = path.display();
    if !path.exists() {
        bail!(
            "there are no figures on {machine}, no {baseline}: `vmbell gate --accept` measures them"
        );
    }
    let report = compare::read(path)?;
    for name in plan.vmm.keys() {
        let mut rows = report.results.iter();
        if !rows.any(|row| row.backend == *name && row.is_ok()) {
            bail!(
                "{baseline} has no figures of [vmm.{name}] on {machine}: `vmbell gate --accept` measures them"
            );
        }
    }
    // Without these, no boot here can be compared with it.
    let (unit, arch) = (Timing::Instructions.name(), env::consts::ARCH);
    for (what, is, must) in [
        ("unit", report.timing.name(), unit),
        ("architecture", report.host.arch.as_str(), arch),
    ] {
        if is != must {
            let why = format!("{what}: {} before, {must} now", visible(is));
            bail!(refusal(path, &why, false));
        }
    }
    Ok(report)
}

/// Why VMMs cannot be held to a baseline. Without `--accept`, the advice is to use it.
pub(super) fn refusal(baseline: &Path, why: &str, is_accepted: bool) -> String {
    let advice = match is_accepted {
        true => "",
        false => "; `vmbell gate --accept` takes new figures",
    };
    format!("cannot hold VMMs to {}: {why}{advice}", baseline.display())
}

/// The part of a file's name that identifies a machine: `debian_6.12+intel`.
pub(super) fn file_name(machine: &GateMachine) -> String {
    let kernel = name_part(&machine.kernel);
    match machine.special_cpu() {
        None => kernel,
        Some(cpu) => format!("{kernel}+{}", name_part(cpu)),
    }
}

/// A text as part of a file's name: `:` is `_`, and other bytes that a name cannot have are written as in a URL.
fn name_part(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => name.push(byte.into()),
            b':' => name.push('_'),
            // Writing to a String cannot fail.
            _ => drop(write!(name, "%{byte:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use vmbell_report::json_by_row;

    use super::*;
    use crate::gate::plan::tests::plan;
    use crate::gate::tests::counted;

    #[test]
    fn a_baseline_has_figures_of_each_vmm_counted_here() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.json");
        let mut plan = plan("kernels = [\"debian:6.12\"]\n[vmm.usermode]\n");
        let here = counted();
        let (mut native, mut elsewhere) = (here.clone(), here.clone());
        native.timing = Timing::Native;
        elsewhere.host.arch = "vax".to_owned();
        for (report, vmms, why) in [
            (&here, &["usermode"][..], None),
            (
                &native,
                &["usermode"],
                Some("unit: native before, instructions now"),
            ),
            (
                &elsewhere,
                &["usermode"],
                Some("architecture: vax before, "),
            ),
            (
                &here,
                &["usermode", "alioth"],
                Some("has no figures of [vmm.alioth] on debian:6.12"),
            ),
        ] {
            std::fs::write(&path, json_by_row(report)).unwrap();
            plan.vmm = vmms
                .iter()
                .map(|name| ((*name).to_owned(), Default::default()))
                .collect();
            let error = read(&plan, &path, &machine("debian:6.12"))
                .err()
                .map(|error| error.to_string());
            assert_eq!(error.is_some(), why.is_some(), "{error:?}");
            let error = error.unwrap_or_default();
            assert!(error.contains(why.unwrap_or_default()), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = read(&plan, &path, &machine("debian:6.12"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("there are no figures on debian:6.12, no /"),
            "{error}"
        );
    }

    fn machine(kernel: &str) -> GateMachine {
        GateMachine {
            kernel: kernel.to_owned(),
            cpu: None,
        }
    }

    #[test]
    fn two_machines_never_share_a_file() {
        let of = |kernel: &str| file_name(&machine(kernel));
        assert_eq!(of("debian:6.12"), "debian_6.12");
        assert_eq!(of("./b/vmlinuz-6.1"), ".%2fb%2fvmlinuz-6.1");
        let haswell = GateMachine {
            cpu: Some("intel:haswell".to_owned()),
            ..machine("a")
        };
        assert_eq!(file_name(&haswell), "a+intel_haswell");
        let names = ["a/b", "a-b", "a:b", "a_b", "a%2fb", "ä", "a+intel_haswell"].map(of);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(!names.contains(&file_name(&haswell)));
    }

    #[test]
    fn a_baseline_is_next_to_its_plan() {
        let next = path("ci/gate.toml".as_ref(), &machine("debian:6.12"));
        assert_eq!(next, Path::new("ci/gate.debian_6.12.json"));
    }
}
