//! The engine of comparisons of VMMs: columns, each a VMM with a guest, are booted in turns, counted and shown.
//!
//! `bench vmms` and `bench net` are data for it: which columns there are ([`Way`]), and what one boot of a column gives ([`Boot`]).
//! `run` boots them and makes the report, whose rows `rows` makes of what they gave.

pub(super) mod args;
mod ended;
mod rows;
mod run;

use std::path::{Path, PathBuf};

pub(super) use self::ended::{in_words, keep, last_words, version_of};
pub(super) use self::run::{Plan, Run};
use vmbell_bench::Limit;
use vmbell_report::{ReasonsOfRun, Status, Vmm, VmmGuest};

/// The hypervisor's signature in the CPUID of QEMU's TCG.
const TCG: &str = "TCGTCGTCGTCG";

/// A VMM with a guest.
pub(super) trait Way {
    /// The name of its column.
    fn name(&self) -> &str;

    /// The VMM's program, or why it cannot be booted here.
    fn program(&self) -> Result<PathBuf, String>;

    /// The program's option that prints its version; `None` if it is not asked for that.
    fn version(&self) -> Option<&'static str>;

    /// Whether the guest's CPU is emulated.
    fn is_emulated(&self) -> bool {
        false
    }
}

/// A way that is to be measured, and what its boots gave.
#[derive(Debug)]
pub(super) struct Column<W> {
    /// The VMM and its guest.
    pub(super) way: W,
    /// The VMM's program, or why it cannot be booted here.
    pub(super) program: Result<PathBuf, String>,
    /// What the program says about its version.
    pub(super) version: Option<String>,
    /// What each boot gave.
    pub(super) boots: Vec<Boot>,
    /// The boot that gave nothing, after which there are no others.
    pub(super) failure: Option<Failure>,
    /// How many boots hung and were repeated, and what the last one did not do.
    pub(super) hung: Option<(u32, String)>,
    /// What a further boot counted of each row, or why there is nothing; `None` if there was none.
    pub(super) counted: Option<Result<CountedRows, String>>,
}

/// What one boot gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Boot {
    /// The machine that the guest found.
    pub(super) guest: Option<VmmGuest>,
    /// The rows, in the order of the table.
    pub(super) rows: Vec<BootRow>,
}

/// A row of one boot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BootRow {
    /// The name.
    pub(super) name: String,
    /// The times of its batches, or why there are none.
    pub(super) batches: Result<Batches, String>,
    /// What was counted meanwhile, or why nothing was; `None` if it was not asked for.
    pub(super) counted: Option<Result<Vec<Counted>, String>>,
}

/// Batches of operations; one, if operations are not divided.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batches {
    /// Operations of each.
    pub(super) operations: u64,
    /// Nanoseconds of an operation, in each.
    pub(super) ns: Vec<f64>,
}

/// What was counted of each row, or why nothing was.
pub(super) type CountedRows = Vec<(String, Result<Vec<Counted>, String>)>;

/// What was counted in a batch, or in a run of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Its operations.
    pub(super) operations: f64,
    /// Exits and returns to the VMM by the kernel's reasons.
    pub(super) reasons: ReasonsOfRun,
    /// Counts of other things, with their names.
    pub(super) counts: Vec<(&'static str, u64)>,
    /// Accesses of the guest that left it, by address.
    pub(super) events: Vec<(String, u64)>,
}

/// A boot that gave no results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Why.
    pub(super) reason: String,
    /// What was printed last.
    pub(super) last: Option<String>,
    /// Whether it ran out of its time.
    pub(super) hung: bool,
}

impl<W: Way> Column<W> {
    /// The column of a way: its program is looked for and asked for its version, until `stop` is set.
    pub(super) fn find(way: W, stop: &Limit) -> Self {
        let program = way.program();
        let version = program.as_deref().ok();
        let version = version.and_then(|program| version_of(program, way.version()?, stop));
        Self {
            version,
            ..Self::new(way, program)
        }
    }

    /// The column of a way whose program is known.
    pub(super) const fn new(way: W, program: Result<PathBuf, String>) -> Self {
        Self {
            way,
            program,
            version: None,
            boots: Vec::new(),
            failure: None,
            hung: None,
            counted: None,
        }
    }

    /// The program, if the column is to be booted: no boot has failed.
    pub(super) fn bootable(&self) -> Option<&Path> {
        let program = self.program.as_deref().ok();
        program.filter(|_| self.failure.is_none())
    }

    /// Whether the guest ran on an emulated CPU.
    pub(super) fn is_emulated(&self) -> bool {
        let guests = self.boots.iter().filter_map(|boot| boot.guest.as_ref());
        let mut signatures = guests.filter_map(|guest| guest.hypervisor.as_deref());
        self.way.is_emulated() || signatures.next() == Some(TCG)
    }

    /// What a report says of the VMM.
    fn vmm(&self) -> Vmm {
        let (status, reason) = match (&self.program, &self.failure) {
            (Err(reason), _) => (Status::Skipped, Some(reason.clone())),
            (_, Some(failure)) => (Status::Failed, Some(failure.reason.clone())),
            (Ok(_), None) if self.boots.is_empty() => {
                let reason = "the command ended before its turn";
                (Status::Skipped, Some(reason.to_owned()))
            }
            (Ok(_), None) => (Status::Ok, None),
        };
        let failure = self.failure.as_ref().filter(|_| status == Status::Failed);
        let program = self.program.as_ref().ok();
        let counted = self.counted.as_ref();
        Vmm {
            name: self.way.name().to_owned(),
            status,
            reason,
            last_output: failure.and_then(|failure| failure.last.clone()),
            program: program.map(|path| path.display().to_string()),
            version: self.version.clone(),
            boots: u32::try_from(self.boots.len()).unwrap_or(u32::MAX),
            emulated: self.is_emulated(),
            guest: self.boots.first().and_then(|boot| boot.guest.clone()),
            repeated: self.hung.as_ref().map(|(count, reason)| match count {
                1 => reason.clone(),
                _ => format!("{reason} (the last of {count})"),
            }),
            exits_reason: counted.and_then(|counted| counted.as_ref().err().cloned()),
        }
    }
}
