//! The budget file: what is measured, which people write, and the figures, which `--init` and `--accept` write.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::{fs, io};

use serde::Deserialize;
use toml_edit::{Array, Key, Value};
use vmbell_report::gate::{Measured, Place};

use super::edit::{self, EditError};

/// The version of the format.
const FORMAT: u32 = 1;
/// The boots of a measurement unless the file says otherwise.
const DEFAULT_BOOTS: u32 = 5;
/// How many boots a measurement may have.
pub(super) const BOOTS: RangeInclusive<u32> = 1..=1000;

/// What is wrong with a budget file.
#[derive(Debug, thiserror::Error)]
pub(super) enum BudgetError {
    /// It cannot be read.
    #[error("cannot read {path}; `vmbell gate --init` writes a budget")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is no TOML, or a key or a type is wrong.
    #[error("{path}: {}", message.trim_end())]
    Syntax {
        /// The file.
        path: String,
        /// What is wrong, with the line.
        message: String,
    },
    /// It is of another version of vmbell.
    #[error(
        "{path} has format {found}, and this vmbell reads format {FORMAT}: use the vmbell that wrote it, or write it anew with --init"
    )]
    Format {
        /// The file.
        path: String,
        /// Its format.
        found: u32,
    },
    /// A list that must not be empty.
    #[error("{path} names no {what}")]
    Nothing {
        /// The file.
        path: String,
        /// What it lacks.
        what: &'static str,
    },
    /// A number of boots that is not allowed.
    #[error("{path} has {found} boots, not {} to {}", BOOTS.start(), BOOTS.end())]
    Boots {
        /// The file.
        path: String,
        /// Its number of boots.
        found: u32,
    },
    /// The figures cannot be written into it.
    #[error("cannot write figures into {path}")]
    Edit {
        /// The file.
        path: String,
        /// Why.
        source: EditError,
    },
}

/// A budget file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    /// The format's version.
    pub(super) format: u32,
    /// The kernels of the lab.
    pub(super) kernels: Vec<String>,
    /// The boots of each VMM on each kernel.
    #[serde(default = "boots")]
    pub(super) boots: u32,
    /// Which rows are measured; if empty, all of them.
    #[serde(default)]
    pub(super) rows: Vec<String>,
    /// The virtio devices; those of `vmbell bench vmms` if there are none.
    #[serde(default)]
    pub(super) virtio: Vec<String>,
    /// Whether each VMM boots Linux, too: the lab's kernel.
    #[serde(default)]
    pub(super) linux: bool,
    /// The VMMs.
    pub(super) vmm: BTreeMap<String, Vmm>,
    /// The figures of each VMM on each kernel.
    #[serde(default)]
    pub(super) measured: BTreeMap<String, BTreeMap<String, Measured>>,
}

/// A VMM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vmm {
    /// Its command line, or the path of its program if vmbell knows the VMM by its name.
    pub(super) command: Option<String>,
    /// Files that it needs in the lab.
    #[serde(default)]
    pub(super) with: Vec<String>,
}

impl Vmm {
    /// The VMM with another command line or program.
    pub(super) fn with_command(&self, command: &str) -> Self {
        Self {
            command: Some(command.to_owned()),
            ..self.clone()
        }
    }
}

/// What every format has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

const fn boots() -> u32 {
    DEFAULT_BOOTS
}

impl Budget {
    /// A budget of these VMMs on these kernels, without figures.
    pub(super) const fn new(
        kernels: Vec<String>,
        vmm: BTreeMap<String, Vmm>,
        boots: Option<u32>,
    ) -> Self {
        Self {
            format: FORMAT,
            kernels,
            boots: match boots {
                Some(boots) => boots,
                None => DEFAULT_BOOTS,
            },
            rows: Vec::new(),
            virtio: Vec::new(),
            linux: false,
            vmm,
            measured: BTreeMap::new(),
        }
    }

    /// Reads a file; its text is returned too, for [`Budget::text`].
    pub(super) fn read(path: &Path) -> Result<(Self, String), BudgetError> {
        let text = fs::read_to_string(path).map_err(|source| BudgetError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Ok((Self::parse(&text, path)?, text))
    }

    fn parse(text: &str, path: &Path) -> Result<Self, BudgetError> {
        let path = || path.display().to_string();
        let syntax = |error: toml_edit::de::Error| BudgetError::Syntax {
            path: path(),
            message: error.to_string(),
        };
        // The other keys may be those of another format.
        let Version { format } = toml_edit::de::from_str(text).map_err(syntax)?;
        if format != FORMAT {
            return Err(BudgetError::Format {
                path: path(),
                found: format,
            });
        }
        let budget: Self = toml_edit::de::from_str(text).map_err(syntax)?;
        for (what, is_empty) in [
            ("kernel", budget.kernels.is_empty()),
            ("VMM", budget.vmm.is_empty()),
        ] {
            if is_empty {
                return Err(BudgetError::Nothing { path: path(), what });
            }
        }
        if !BOOTS.contains(&budget.boots) {
            return Err(BudgetError::Boots {
                path: path(),
                found: budget.boots,
            });
        }
        Ok(budget)
    }

    /// The figures of each place that is measured with these kernels.
    pub(super) fn figures(&self, kernels: &[String]) -> BTreeMap<Place, Measured> {
        let held = self.measured.iter();
        let held = held.filter(|(kernel, _)| kernels.contains(kernel));
        let places = held.flat_map(|(kernel, vmms)| {
            let vmms = vmms.iter().filter(|(vmm, _)| self.vmm.contains_key(*vmm));
            vmms.map(|(vmm, measured)| {
                let place = Place {
                    kernel: kernel.clone(),
                    vmm: vmm.clone(),
                };
                (place, measured.clone())
            })
        });
        places.collect()
    }

    /// Takes what was measured.
    pub(super) fn accept(&mut self, measured: BTreeMap<Place, Measured>) {
        self.measured
            .retain(|kernel, _| self.kernels.contains(kernel));
        for (Place { kernel, vmm }, measured) in measured {
            let of_kernel = self.measured.entry(kernel).or_default();
            of_kernel.retain(|vmm, _| self.vmm.contains_key(vmm));
            of_kernel.insert(vmm, measured);
        }
    }

    /// The text of the file `path` with the figures of this budget; `text` is what it has now.
    pub(super) fn text(&self, path: &Path, text: &str) -> Result<String, BudgetError> {
        edit::with_figures(text, &self.measured).map_err(|source| BudgetError::Edit {
            path: path.display().to_string(),
            source,
        })
    }

    /// What people may change, as `--init` writes it.
    pub(super) fn plan(&self) -> String {
        let list = |values: &[String]| values.iter().collect::<Array>();
        let mut text = format!(
            "# The budget of `vmbell gate`: what operations of VMMs may cost, in exits and instructions.\n\
             format = {FORMAT}\n\
             # Kernels of the lab; debian:6.12.43 is one exact package.\n\
             kernels = {}\n\
             # Boots of each VMM, each with another layout.\n\
             boots = {}\n",
            list(&self.kernels),
            self.boots
        );
        // Writing to a String cannot fail, here and below.
        for (key, values) in [("rows", &self.rows), ("virtio", &self.virtio)] {
            if !values.is_empty() {
                let _ = writeln!(text, "{key} = {}", list(values));
            }
        }
        if self.linux {
            text.push_str("linux = true\n");
        }
        for (name, vmm) in &self.vmm {
            let _ = write!(text, "\n[vmm.{}]\n", Key::new(name));
            if let Some(command) = &vmm.command {
                let _ = writeln!(text, "command = {}", Value::from(command));
            }
            if !vmm.with.is_empty() {
                let _ = writeln!(text, "with = {}", list(&vmm.with));
            }
        }
        text + "\n"
    }
}

#[cfg(test)]
#[path = "budget_test.rs"]
mod tests;
