//! The plan of a gate: a TOML file that says what is measured. Users edit it; vmbell writes it only for `--init`.
//!
//! All errors here are about the arguments or the file, and are found before a boot.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table};

use super::args::{BOOTS, GateArgs};
use crate::lab;
use vmbell_bench::did_you_mean;

/// The kernel of a new plan.
const KERNEL: &str = "debian:6.12";
/// The default CPU of the lab on x86-64.
const DEFAULT_CPU: &str = "amd";
/// The VMM of a new plan, which is always available.
const VMM: &str = "vmbell";
/// The default number of boots.
const DEFAULT_BOOTS: u32 = 5;
/// How a new file begins.
const TITLE: &str = "# What `vmbell gate` measures. The figures of each kernel are in a .json file next to this one.\n";

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GatePlan {
    /// The kernels of the lab.
    pub(super) kernels: Vec<String>,
    /// The CPUs of the lab, as `vmbell lab --cpu` names them; if empty, its default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cpus: Vec<String>,
    /// The boots of each VMM on each machine.
    #[serde(default = "default_boots")]
    pub(super) boots: u32,
    /// Which rows are measured; if empty, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rows: Vec<String>,
    /// The virtio devices; if empty, those of `vmbell bench vmms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) virtio: Vec<String>,
    /// Whether each VMM also boots Linux, the lab's kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) linux: bool,
    /// The VMMs.
    pub(super) vmm: BTreeMap<String, PlannedVmm>,
}

/// A machine of the lab: a kernel and a CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GateMachine {
    pub(super) kernel: String,
    /// The CPU, by the lab's name; `None` is the lab's default.
    pub(super) cpu: Option<String>,
}

impl GateMachine {
    /// The CPU, unless it is the lab's default.
    pub(super) fn special_cpu(&self) -> Option<&str> {
        self.cpu.as_deref().filter(|cpu| *cpu != DEFAULT_CPU)
    }
}

impl fmt::Display for GateMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.special_cpu() {
            None => f.write_str(&self.kernel),
            Some(cpu) => write!(f, "{} on {cpu}", self.kernel),
        }
    }
}

/// A VMM of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedVmm {
    /// The VMM's command line, or the path of its program if vmbell knows the VMM by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    /// Files that the VMM needs in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) with: Vec<String>,
}

const fn default_boots() -> u32 {
    DEFAULT_BOOTS
}

impl GatePlan {
    /// The plan that `--init` describes. Its file must not exist.
    pub(super) fn described(args: &GateArgs) -> Result<Self> {
        if args.file.exists() {
            let file = args.file.display();
            bail!(
                "{file} exists: `vmbell gate --accept` takes new figures, and --file names another file"
            );
        }
        let names = args.names.iter().cloned();
        let vmms = names.map(|name| (name, PlannedVmm::default()));
        let mut vmm: BTreeMap<String, PlannedVmm> = vmms.collect();
        for (name, command) in &args.vmm {
            vmm.entry(name.clone()).or_default().command = Some(command.clone());
        }
        if vmm.is_empty() {
            vmm.insert(VMM.to_owned(), PlannedVmm::default());
        }
        let virtio = args.virtio.iter();
        Ok(Self {
            kernels: match args.kernel.is_empty() {
                true => vec![KERNEL.to_owned()],
                false => args.kernel.clone(),
            },
            cpus: args.cpu.clone(),
            boots: args.boots.unwrap_or(DEFAULT_BOOTS),
            rows: args.rows.clone(),
            virtio: virtio.map(|device| device.name().to_owned()).collect(),
            linux: args.linux,
            vmm,
        })
    }

    /// Reads the file, and replaces commands by those of `--vmm`.
    pub(super) fn read(args: &GateArgs) -> Result<Self> {
        let file = args.file.display();
        let text = fs::read_to_string(&args.file).with_context(|| {
            format!("cannot read {file}; `vmbell gate --init` writes a plan and measures it")
        })?;
        let mut plan = Self::parse(&text).with_context(|| file.to_string())?;
        for (name, command) in &args.vmm {
            let Some(vmm) = plan.vmm.get_mut(name) else {
                let names: Vec<&str> = plan.vmm.keys().map(String::as_str).collect();
                let (hint, names) = (did_you_mean(name, &names), names.join(", "));
                bail!("--vmm: {file} has no VMM '{name}'{hint}; it has {names}");
            };
            vmm.command = Some(command.clone());
        }
        Ok(plan)
    }

    /// The machines to measure on.
    pub(super) fn machines(&self, args: &GateArgs) -> Result<Vec<GateMachine>> {
        let kernels = chosen("kernel", args, &args.kernel, &self.kernels)?;
        let (named, mut held) = (cpu_names(&args.cpu), cpu_names(&self.cpus));
        if held.is_empty() && !named.is_empty() {
            held.push(DEFAULT_CPU.to_owned());
        }
        let cpus = match chosen("CPU", args, &named, &held)? {
            [] => vec![None],
            cpus => cpus.iter().map(Some).collect(),
        };
        let on_each = |kernel: &String| {
            let machine = |cpu: &Option<&String>| GateMachine {
                kernel: kernel.clone(),
                cpu: cpu.cloned(),
            };
            cpus.iter().map(machine).collect::<Vec<_>>()
        };
        Ok(kernels.iter().flat_map(on_each).collect())
    }

    fn parse(text: &str) -> Result<Self> {
        let plan = toml_edit::de::from_str(text);
        let plan: Self =
            plan.map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))?;
        for (what, is_empty) in [
            ("kernel", plan.kernels.is_empty()),
            ("VMM", plan.vmm.is_empty()),
        ] {
            if is_empty {
                bail!("it names no {what}");
            }
        }
        if !BOOTS.contains(&plan.boots) {
            let (least, most) = (BOOTS.start(), BOOTS.end());
            bail!(
                "boots: {} is not a number from {least} to {most}",
                plan.boots
            );
        }
        Ok(plan)
    }

    /// The text of a new file, with a table for each VMM.
    pub(super) fn text(&self) -> Result<String> {
        let table = |document: DocumentMut| Item::Table(document.as_table().clone());
        let mut document = toml_edit::ser::to_document(self)?;
        let mut vmms = Table::new();
        vmms.set_implicit(true);
        for (name, vmm) in &self.vmm {
            vmms.insert(name, table(toml_edit::ser::to_document(vmm)?));
        }
        document.insert("vmm", Item::Table(vmms));
        Ok(format!("{TITLE}{document}"))
    }
}

/// The lab's names of these CPUs. A name that the lab does not know stays, and is refused by the check of the plan.
fn cpu_names(cpus: &[String]) -> Vec<String> {
    let name = |cpu: &String| lab::cpu_name(cpu).unwrap_or_else(|_| cpu.clone());
    cpus.iter().map(name).collect()
}

/// The kernels or CPUs that are named on the command line, otherwise those of the plan, which must have them.
fn chosen<'a>(
    what: &str,
    args: &GateArgs,
    named: &'a [String],
    held: &'a [String],
) -> Result<&'a [String]> {
    let chosen = match args.init || named.is_empty() {
        true => held,
        false => named,
    };
    // If one were named twice, two boots would write the same report at the same time.
    let mut seen = BTreeSet::new();
    for name in chosen {
        if !held.contains(name) {
            let (file, option) = (args.file.display(), what.to_lowercase());
            let known: Vec<&str> = held.iter().map(String::as_str).collect();
            let hint = did_you_mean(name, &known);
            let held = held.join(", ");
            bail!("--{option}: {file} does not hold the {what} {name}, only {held}{hint}");
        }
        if !seen.insert(name) {
            bail!("the {what} {name} is named twice");
        }
    }
    Ok(chosen)
}

#[cfg(test)]
#[path = "plan_test.rs"]
pub(super) mod tests;
