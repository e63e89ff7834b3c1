//! The budget file: what is measured, which people write, and below it the figures, which `--init` and `--accept` write.
//!
//! The figures begin with a line of their own, so that comments and order above it stay as they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde::Deserialize;
use vmbell_report::gate::{Figures, Measured, Place, Range};

/// The version of the format.
const FORMAT: u32 = 1;
/// The line that begins the figures.
const FIGURES: &str = "# Figures, written by `vmbell gate --accept`; a range is the least, the median and the most of the boots.";
/// The boots of a measurement unless the file says otherwise.
const BOOTS: u32 = 5;

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
    /// It cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
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
    BOOTS
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
                None => BOOTS,
            },
            rows: Vec::new(),
            virtio: Vec::new(),
            linux: false,
            vmm,
            measured: BTreeMap::new(),
        }
    }

    /// Reads a file; its text is returned too, for [`Budget::save`].
    pub(super) fn read(path: &Path) -> Result<(Self, String), BudgetError> {
        let text = fs::read_to_string(path).map_err(|source| BudgetError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Ok((Self::parse(&text, path)?, text))
    }

    fn parse(text: &str, path: &Path) -> Result<Self, BudgetError> {
        let path = || path.display().to_string();
        let syntax = |error: toml::de::Error| BudgetError::Syntax {
            path: path(),
            message: error.to_string(),
        };
        // The other keys may be those of another format.
        let Version { format } = toml::from_str(text).map_err(syntax)?;
        if format != FORMAT {
            return Err(BudgetError::Format {
                path: path(),
                found: format,
            });
        }
        let budget: Self = toml::from_str(text).map_err(syntax)?;
        for (what, is_empty) in [
            ("kernel", budget.kernels.is_empty()),
            ("VMM", budget.vmm.is_empty()),
            ("boot", budget.boots == 0),
        ] {
            if is_empty {
                return Err(BudgetError::Nothing { path: path(), what });
            }
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

    /// Writes the file: what people wrote, which is `text` above the figures, and the figures.
    pub(super) fn save(&self, path: &Path, text: &str) -> Result<(), BudgetError> {
        let plan = text.split(FIGURES).next().unwrap_or_default();
        fs::write(path, format!("{plan}{FIGURES}\n{}", self.written())).map_err(|source| {
            BudgetError::Write {
                path: path.display().to_string(),
                source,
            }
        })
    }

    /// What people may change, as `--init` writes it.
    pub(super) fn plan(&self) -> String {
        let list = |values: &[String]| {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("[{}]", values.join(", "))
        };
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
            let _ = write!(text, "\n[vmm.{}]\n", quoted(name));
            if let Some(command) = &vmm.command {
                let _ = writeln!(text, "command = {}", quoted(command));
            }
            if !vmm.with.is_empty() {
                let _ = writeln!(text, "with = {}", list(&vmm.with));
            }
        }
        text + "\n"
    }

    /// The figures.
    fn written(&self) -> String {
        let mut text = String::new();
        for (kernel, vmms) in &self.measured {
            for (vmm, measured) in vmms {
                let path = format!("measured.{}.{}", quoted(kernel), quoted(vmm));
                let _ = write!(text, "\n[{path}]\n");
                for (key, value) in [("version", &measured.version), ("kernel", &measured.kernel)] {
                    if let Some(value) = value {
                        let _ = writeln!(text, "{key} = {}", quoted(value));
                    }
                }
                let _ = write!(text, "\n[{path}.rows]\n");
                for (row, figures) in &measured.rows {
                    let _ = writeln!(text, "{row} = {}", inline(figures));
                }
            }
        }
        text
    }
}

/// The figures of a row in one line.
fn inline(figures: &Figures) -> String {
    let mut parts = Vec::new();
    for (key, range) in [("exits", figures.exits), ("to_vmm", figures.to_vmm)] {
        parts.extend(range.map(|range| format!("{key} = {}", number_or_range(range))));
    }
    parts.push(format!(
        "instructions = {}",
        number_or_range(figures.instructions)
    ));
    for (key, counts) in [
        ("reasons", &figures.reasons),
        ("addresses", &figures.addresses),
    ] {
        if !counts.is_empty() {
            let counts: Vec<String> = counts
                .iter()
                .map(|(name, count)| format!("{} = {count}", quoted(name)))
                .collect();
            parts.push(format!("{key} = {{ {} }}", counts.join(", ")));
        }
    }
    format!("{{ {} }}", parts.join(", "))
}

/// One number if all boots agree.
fn number_or_range(range: Range) -> String {
    let [least, median, most] = range.into();
    if range.width() == 0.0 {
        return median.to_string();
    }
    format!("[{least}, {median}, {most}]")
}

/// A string of TOML, or a key: the same escapes as JSON's, but for the control character that JSON leaves alone.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
#[path = "budget_test.rs"]
mod tests;
