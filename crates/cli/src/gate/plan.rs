//! The plan of a gate: a TOML file that says what is measured. Users edit it; vmbell writes it only for `--init`.
//!
//! All errors here are about the arguments or the file, and are found before a boot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table};

use super::args::{BOOTS, GateArgs};
use vmbell_bench::did_you_mean;

/// The kernel of a new plan.
const KERNEL: &str = "debian:6.12";
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
    /// The boots of each VMM on each kernel.
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

/// A VMM of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedVmm {
    /// Its command line, or the path of its program if vmbell knows the VMM by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    /// Files that it needs in the lab.
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

    /// The kernels to measure on.
    pub(super) fn kernels(&self, args: &GateArgs) -> Result<Vec<String>> {
        let kernels = match args.init || args.kernel.is_empty() {
            true => &self.kernels,
            false => &args.kernel,
        };
        // If a kernel were named twice, two boots would write the same report at the same time.
        let mut seen = BTreeSet::new();
        for kernel in kernels {
            if !self.kernels.contains(kernel) {
                let (file, held) = (args.file.display(), self.kernels.join(", "));
                let known: Vec<&str> = self.kernels.iter().map(String::as_str).collect();
                let hint = did_you_mean(kernel, &known);
                bail!("--kernel: {file} does not hold the kernel {kernel}, only {held}{hint}");
            }
            if !seen.insert(kernel) {
                bail!("the kernel {kernel} is named twice");
            }
        }
        Ok(kernels.clone())
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

#[cfg(test)]
#[path = "plan_test.rs"]
pub(super) mod tests;
