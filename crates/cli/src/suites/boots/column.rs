//! A column of a comparison: a VMM with a guest, and the results of its boots.

use std::path::{Path, PathBuf};

use super::ended::version_of;
use vmbell_bench::CommandLimit;
use vmbell_report::{ReasonsOfRun, Status, Vmm, VmmGuest};

/// The hypervisor's signature in the CPUID of QEMU's TCG.
pub(super) const TCG: &str = "TCGTCGTCGTCG";

/// A VMM with a guest.
pub(crate) trait BootWay {
    /// The name of the column.
    fn name(&self) -> &str;

    /// The VMM's program, or why it cannot be booted here.
    fn program(&self) -> Result<PathBuf, String>;

    /// The program's option that prints its version; `None` to not ask for it.
    fn version(&self) -> Option<&'static str>;

    /// Whether the guest's CPU is emulated.
    fn is_emulated(&self) -> bool {
        false
    }
}

/// A column to measure, and the results of its boots.
#[derive(Debug)]
pub(crate) struct BootColumn<W> {
    /// The VMM and its guest.
    pub(crate) way: W,
    /// The VMM's program, or why it cannot be booted here.
    pub(crate) program: Result<PathBuf, String>,
    /// The version that the program prints.
    pub(crate) version: Option<String>,
    /// The results of each boot.
    pub(crate) boots: Vec<BootResult>,
    /// Why a boot had no results, if there was such a boot. The column is then not booted again.
    pub(crate) failure: Option<VmmFailure>,
    /// How many boots hung and were repeated, and what the last of them failed to do.
    pub(crate) hung: Option<(u32, String)>,
    /// What a further boot counted for each row, or why it counted nothing; `None` if there was no such boot.
    pub(crate) counted: Option<Result<CountedRows, String>>,
}

/// The results of one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BootResult {
    /// The machine that the guest found.
    pub(crate) guest: Option<VmmGuest>,
    /// The rows, in the order of the table.
    pub(crate) rows: Vec<BootRow>,
}

/// A row of one boot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BootRow {
    /// The name.
    pub(crate) name: String,
    /// What one operation of the row is, if that is known.
    pub(crate) description: Option<String>,
    /// The times of the row's batches, or why there are none.
    pub(crate) batches: Result<BatchTimes, String>,
    /// What was counted during the row, or why nothing was; `None` if counting was not requested.
    pub(crate) counted: Option<Result<Vec<CountedBatch>, String>>,
}

/// Batches of operations; one batch if operations are not divided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchTimes {
    /// The operations of each batch.
    pub(crate) operations: u64,
    /// Nanoseconds per operation, for each batch.
    pub(crate) ns: Vec<f64>,
}

/// What was counted for each row, or why nothing was.
pub(crate) type CountedRows = Vec<(String, Result<Vec<CountedBatch>, String>)>;

/// What was counted in a batch, or in a separate run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CountedBatch {
    /// The number of operations.
    pub(crate) operations: f64,
    /// Exits and returns to the VMM, by the kernel's reasons.
    pub(crate) reasons: ReasonsOfRun,
    /// Other counts, with their names.
    pub(crate) counts: Vec<(&'static str, u64)>,
    /// The guest's accesses that caused exits, by address.
    pub(crate) events: Vec<(String, u64)>,
}

/// A boot without results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VmmFailure {
    /// Why there are no results.
    pub(crate) reason: String,
    /// The last line of output.
    pub(crate) last: Option<String>,
    /// Whether the boot exceeded its time limit.
    pub(crate) hung: bool,
}

impl<W: BootWay> BootColumn<W> {
    /// The column of a VMM. Its program is searched for and asked for its version, until `stop` is set.
    pub(crate) fn find(way: W, stop: &CommandLimit) -> Self {
        let program = way.program();
        let version = program.as_deref().ok();
        let version = version.and_then(|program| version_of(program, way.version()?, stop));
        Self {
            version,
            ..Self::new(way, program)
        }
    }

    /// The column of a VMM whose program is known.
    pub(crate) const fn new(way: W, program: Result<PathBuf, String>) -> Self {
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

    /// The program, if the column can still be booted: no boot has failed.
    pub(crate) fn bootable(&self) -> Option<&Path> {
        let program = self.program.as_deref().ok();
        program.filter(|_| self.failure.is_none())
    }

    /// Whether the guest ran on an emulated CPU.
    pub(crate) fn is_emulated(&self) -> bool {
        let guests = self.boots.iter().filter_map(|boot| boot.guest.as_ref());
        let mut signatures = guests.filter_map(|guest| guest.hypervisor.as_deref());
        self.way.is_emulated() || signatures.next() == Some(TCG)
    }

    /// The VMM as a report describes it.
    pub(super) fn vmm(&self) -> Vmm {
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
