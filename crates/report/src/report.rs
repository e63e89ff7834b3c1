//! A report: what each suite's report says about its host and plan, its rows, and what the suite adds.
//!
//! [`Kind`] has a variant for each suite, so that writers match on the suite instead of on a combination of optional
//! fields. The types are the JSON of `docs/report-schema.md`; `docs/report.schema.json` is generated from them.

use serde::{Deserialize, Serialize};

use super::{Group, Host, Ratio, Row, Timing, Vmm, Work};

/// What one command measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The suite, with what its reports have in addition.
    #[serde(flatten)]
    pub kind: Kind,
    /// The program that measured.
    pub tool: Tool,
    /// The host on which the program measured.
    pub host: Host,
    /// When measuring began, in RFC 3339.
    pub started: String,
    /// How long the whole command took, in seconds.
    pub duration: f64,
    /// Whether SIGINT stopped the command before it was done.
    pub interrupted: bool,
    /// Whether the command's own time limit stopped it before it was done.
    pub timed_out: bool,
    /// What one nanosecond of the report's times means.
    #[serde(flatten)]
    pub timing: Timing,
    /// The seed of the random order of runs and of the bootstrap.
    pub seed: u64,
    /// How much was to be measured, and how many runs were.
    pub plan: Planned,
    /// The backends, or the VMMs, that ran guests.
    pub backends: Vec<Backend>,
    /// The CPUs that threads were pinned to, the measured side's first; empty if none was.
    pub cpus: Vec<usize>,
    /// The time stamp counter, which guests measure with.
    pub tsc: Tsc,
    /// One row for each entry, measured or not.
    pub results: Vec<Row>,
}

/// The suite of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "suite", rename_all = "lowercase")]
pub enum Kind {
    /// Paths between a guest and its host, and the host's floors.
    Paths(Paths),
    /// Variants of a virtqueue.
    Rings {
        /// What all rows do.
        work: Work,
    },
    /// Events of a guest that takes interrupts, with PV EOI off and on.
    Eoi {
        /// What all rows do.
        work: Work,
    },
    /// One guest image in several VMMs.
    Vmms {
        /// The VMMs.
        vmms: Vec<Vmm>,
    },
    /// Linux's network driver in a guest, over each path by which a VMM can serve it.
    Net {
        /// The paths, each as a VMM.
        vmms: Vec<Vmm>,
    },
}

/// What a report of paths has in addition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Paths {
    /// The spin policy that the command line chose.
    pub spin: String,
    /// The ratios that answer the usual questions, of those whose two entries were measured.
    pub highlights: Vec<Highlight>,
    /// What the ratios are relative to, in words: `device model`, `first value` (of a scan) or `reference`.
    pub ratios_to: String,
}

impl Report {
    /// The rows of one group, in the order of the report.
    pub fn group(&self, group: Group) -> Vec<&Row> {
        let rows = self.results.iter();
        rows.filter(|row| row.group == group).collect()
    }

    /// What a report of paths has in addition to its rows; `None` for other suites.
    pub const fn paths(&self) -> Option<&Paths> {
        match &self.kind {
            Kind::Paths(paths) => Some(paths),
            _ => None,
        }
    }

    /// The work that all rows do; `None` for suites whose rows do different work.
    pub const fn work(&self) -> Option<&Work> {
        match &self.kind {
            Kind::Rings { work } | Kind::Eoi { work } => Some(work),
            Kind::Paths(_) | Kind::Vmms { .. } | Kind::Net { .. } => None,
        }
    }

    /// The compared VMMs; empty for suites without VMMs.
    pub fn vmms(&self) -> &[Vmm] {
        match &self.kind {
            Kind::Vmms { vmms } | Kind::Net { vmms } => vmms,
            Kind::Paths(_) | Kind::Rings { .. } | Kind::Eoi { .. } => &[],
        }
    }

    /// Whether the backend with this name runs the guest's kernel mode in an instruction emulator.
    pub fn emulates_kernel_mode(&self, backend: &str) -> bool {
        let mut backends = self.backends.iter();
        backends.any(|one| one.name == backend && one.emulates_kernel_mode)
    }

    /// Whether the command stopped before it was done.
    pub const fn ended_early(&self) -> bool {
        self.interrupted || self.timed_out
    }

    /// The prefix of a sentence about a backend, as `kvm: `; empty if only one backend ran guests.
    pub(super) fn prefix(&self, backend: &str) -> String {
        if self.backends.len() > 1 {
            format!("{backend}: ")
        } else {
            String::new()
        }
    }

    /// The name of a row, with its backend if several backends ran guests.
    pub fn label(&self, row: &Row) -> String {
        if self.backends.len() > 1 && row.group == Group::Scenario {
            format!("{} ({})", row.command, row.backend)
        } else {
            row.command.clone()
        }
    }
}

impl Kind {
    /// The name of the suite.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paths(_) => "paths",
            Self::Rings { .. } => "rings",
            Self::Eoi { .. } => "eoi",
            Self::Vmms { .. } => "vmms",
            Self::Net { .. } => "net",
        }
    }
}

/// The program that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tool {
    /// The program's name, `vmbell`.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The git revision that the program was built from; `None` if it was not built in a repository.
    pub git: Option<String>,
}

/// How much was to be measured, and how many runs were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Planned {
    /// Measured runs that were asked for, of each entry.
    pub runs: u32,
    /// Measured runs of the entry that has the most of them.
    pub finished: u32,
    /// Warm-up rounds, whose results are discarded, before the measured rounds.
    pub warmup: u32,
    /// How long one run was meant to take, in seconds; without effect where `ops` is given.
    pub min_time: f64,
    /// The maximum number of operations of each run; a row that pauses between them has fewer, and so has a slow row if
    /// time is emulated. `None` if `min_time` decides.
    pub ops: Option<u64>,
}

/// The backend that ran the guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Backend {
    /// The name of the backend: `kvm`, `usermode`, or `host` where no guest takes part.
    pub name: String,
    /// Why this backend was taken, in words.
    pub why: String,
    /// Whether the backend runs the guest's ring 0 in an instruction emulator instead of on the CPU, so that exits do
    /// not cost what they cost on hardware.
    pub emulates_kernel_mode: bool,
}

/// The time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tsc {
    /// The counter's measured frequency in Hz.
    pub hz: f64,
    /// Whether the CPU promises (CPUID) that the frequency never changes.
    pub invariant: bool,
}

/// A ratio that answers one of the usual questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Highlight {
    /// The name of the entry in the numerator.
    pub new: String,
    /// The backend that both entries ran on; a floor has no backend itself.
    pub backend: String,
    /// What the ratio compares, in words.
    pub text: String,
    /// The ratio itself.
    pub ratio: Ratio,
}
