//! One boot of the image in a VMM: the command line, the program's output, and the rows that the image prints there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::args::{VmmDeviceName, VmmsArgs};
use super::config;
use super::document::{BootDocument, DocumentRow};
use super::exits;
use super::launcher::VmmCandidate;
use super::linux;
use super::serial;
use super::template::{BZIMAGE, CONFIG, TemplateValues};
use crate::process::{self, ProgramEnd, ProgramOutput, ProgramTask};
use crate::suites::boots::{
    BatchTimes, BootResult, BootRow, BootWay, BootsRun, CountedRows, VmmFailure, in_words, keep,
    last_words,
};
use vmbell_probe_image::names;
use vmbell_report::Timing;
use vmbell_report::units::thousandths;

/// The maximum number of operations per batch when exits are counted: all operations exit alike, and each exit is
/// recorded.
const COUNTED_OPS: u32 = 20;
/// The size of the disk.
const DISK: u64 = 1 << 20;
/// The image's reason for a row that its command line leaves out.
const NOT_ASKED_FOR: &str = "not asked for";

/// The image's memory in MiB.
const MEMORY: u32 = 64;

/// What is booted, and which output completes the boot.
#[derive(Clone, Copy)]
struct BootedImage<'a> {
    image: &'a Path,
    bzimage: &'a Path,
    cmdline: &'a str,
    cpus: u32,
    memory: u32,
    is_complete: &'a dyn Fn(&[u8]) -> bool,
    /// Whether the image is a Linux, which never runs for long without an exit.
    is_linux: bool,
}

/// What all boots share.
pub(super) struct VmmBootContext<'a> {
    args: &'a VmmsArgs,
    run: &'a BootsRun<'a>,
    /// The folder of the image and the disk.
    folder: TempDir,
}

impl<'a> VmmBootContext<'a> {
    /// Writes the image.
    pub(super) fn new(args: &'a VmmsArgs, run: &'a BootsRun<'a>) -> Result<Self> {
        let folder = TempDir::with_prefix("vmbell-vmm-");
        let folder = folder.context("cannot make a temporary folder")?;
        let place = Self { args, run, folder };
        fs::write(place.image(), vmbell_probe_image::ELF)
            .and_then(|()| fs::write(place.bzimage(), vmbell_probe_image::bzimage()))
            .context("cannot write the image")?;
        Ok(place)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("probe.elf")
    }

    fn bzimage(&self) -> PathBuf {
        self.folder.path().join("probe.bz")
    }

    /// Boots a VMM; its output is kept under `run` if --keep is given.
    pub(super) fn boot(
        &self,
        vmm: &VmmCandidate,
        program: &Path,
        run: &str,
    ) -> Result<Result<BootResult, VmmFailure>> {
        let document = self.document(vmm, program, &self.cmdline(self.args.ops, "verbose"), run)?;
        Ok(document.map(|document| self.rows(document)))
    }

    /// Counts a VMM's exits in a separate boot, or returns why there is nothing to count.
    pub(super) fn count(
        &self,
        vmm: &VmmCandidate,
        program: &Path,
    ) -> Result<Result<CountedRows, String>> {
        let cmdline = self.cmdline(self.args.ops.min(COUNTED_OPS), exits::WORD);
        let mut failed = None;
        let counted = exits::count(|| match self.document(vmm, program, &cmdline, "exits") {
            Ok(booted) => booted.map_err(|failure| failure.reason),
            Err(error) => {
                failed = Some(error);
                Err(String::new())
            }
        });
        failed.map_or(Ok(counted), Err)
    }

    /// Boots Linux in a VMM.
    pub(super) fn linux(
        &self,
        kernel: &Path,
        vmm: &VmmCandidate,
        program: &Path,
        run: &str,
        obstacle: Option<&str>,
    ) -> Result<Result<BootRow, VmmFailure>> {
        let parameters = linux::parameters(self.run.begun.timing);
        let mut has_hung = false;
        let row = linux::row::<anyhow::Error>(obstacle, || {
            if vmm.launcher.has(BZIMAGE) && !linux::is_bzimage(kernel) {
                return Ok(Err(format!(
                    "{} boots a bzImage, and {} is not one",
                    vmm.name(),
                    kernel.display()
                )));
            }
            let booted = BootedImage {
                image: kernel,
                bzimage: kernel,
                cmdline: &parameters,
                cpus: linux::CPUS,
                memory: linux::MEMORY,
                is_complete: &linux::is_complete,
                is_linux: true,
            };
            let ended = self.ended(vmm, program, booted, run)?;
            Ok(match ended {
                Ok(ended) if linux::is_complete(&ended.output) => Ok(ended.output),
                Ok(ended) => {
                    has_hung = matches!(ended.end, ProgramEnd::TimeLimit | ProgramEnd::Spun);
                    let said = last_words(&ended).map(|said| format!("; its last words: {said}"));
                    let end = in_words(&ended.end, self.args.columns.run_timeout);
                    Err(format!(
                        "Linux did not finish booting; {end}{}",
                        said.unwrap_or_default()
                    ))
                }
                Err(error) => Err(format!("it cannot be run: {error}")),
            })
        })?;
        Ok(match &row.batches {
            Err(reason) if has_hung => Err(VmmFailure {
                reason: reason.clone(),
                last: None,
                hung: true,
            }),
            _ => Ok(row),
        })
    }

    fn document(
        &self,
        vmm: &VmmCandidate,
        program: &Path,
        cmdline: &str,
        run: &str,
    ) -> Result<Result<BootDocument, VmmFailure>> {
        let (image, bzimage) = (self.image(), self.bzimage());
        let booted = BootedImage {
            image: &image,
            bzimage: &bzimage,
            cmdline,
            cpus: self.args.vcpus,
            memory: MEMORY,
            is_complete: &serial::is_complete,
            is_linux: false,
        };
        Ok(self.outcome(self.ended(vmm, program, booted, run)?))
    }

    /// Runs a VMM until its guest's output is complete, and keeps the output if --keep is given.
    fn ended(
        &self,
        vmm: &VmmCandidate,
        program: &Path,
        booted: BootedImage<'_>,
        run: &str,
    ) -> Result<io::Result<ProgramOutput>> {
        // Each boot has its own disk, without what an earlier VMM wrote or locked.
        let disk = self.folder.path().join("disk");
        empty(&disk).context("cannot make a disk")?;
        let config = self.folder.path().join("config.json");
        let places = TemplateValues {
            image: booted.image,
            bzimage: booted.bzimage,
            config: &config,
            cmdline: booted.cmdline,
            disk: &disk,
            cpus: booted.cpus,
            memory: booted.memory,
            accel: vmm.accel,
        };
        if vmm.launcher.has(CONFIG) {
            let text = config::firecracker(places, &self.args.device).to_string();
            fs::write(&config, text).context("cannot write a configuration")?;
        }
        let ended = process::run(&ProgramTask {
            cpus: &self.run.cpus,
            is_complete: booted.is_complete,
            // With instructions as the clock, a spinning guest would take minutes to reach its time limit.
            ends_if_spinning: booted.is_linux && self.run.begun.timing == Timing::Instructions,
            ..ProgramTask::new(
                &vmm.launcher.words(program, places, &self.args.device),
                self.args.columns.run_timeout,
                self.run.limit,
            )
        });
        if let Ok(ended) = &ended {
            keep(&self.args.columns, vmm.name(), run, ended)?;
        }
        Ok(ended)
    }

    /// The results of a boot. If they are complete, it does not matter how the VMM ended.
    fn outcome(&self, ended: io::Result<ProgramOutput>) -> Result<BootDocument, VmmFailure> {
        let ended = ended.map_err(|error| VmmFailure {
            reason: format!("it cannot be run: {error}"),
            last: None,
            hung: false,
        })?;
        serial::read(&ended.output).map_err(|error| VmmFailure {
            reason: format!(
                "{error}; {}",
                in_words(&ended.end, self.args.columns.run_timeout)
            ),
            last: last_words(&ended),
            hung: ended.end == ProgramEnd::TimeLimit,
        })
    }

    /// The image's command line.
    fn cmdline(&self, ops: u32, word: &str) -> String {
        let mut words = format!("ops={ops} batches={} {word}", self.args.batches);
        if let Some(seed) = self.args.columns.measure.seed {
            words.push_str(&format!(" order={seed}"));
        }
        if !self.args.only.is_empty() {
            words.push_str(" only=");
            words.push_str(&self.args.only.join(","));
        }
        words
    }

    /// The rows of a document, with times in nanoseconds by the frequency that the guest reports, if any.
    fn rows(&self, document: BootDocument) -> BootResult {
        let told = document
            .guest
            .tsc_hz
            .filter(|_| self.run.begun.timing != Timing::Instructions);
        // If the guest cannot tell its counter's frequency, the host's is used.
        let hz = told.unwrap_or_else(|| self.run.begun.clock.hz());
        let rows = document.rows.into_iter();
        let wanted = rows.filter(|row| is_wanted(row, &self.args.device));
        BootResult {
            guest: Some(document.guest),
            rows: wanted.map(|row| in_nanoseconds(row, hz)).collect(),
        }
    }
}

fn in_nanoseconds(row: DocumentRow, hz: f64) -> BootRow {
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    let batches = row.result.map(|batches| {
        let operations = batches.operations as f64;
        let ns = |ticks: &u64| thousandths(*ticks as f64 * 1e9 / hz / operations);
        BatchTimes {
            operations: batches.operations,
            ns: batches.ticks.iter().map(ns).collect(),
        }
    });
    BootRow {
        description: names::description(&row.name).map(str::to_owned),
        name: row.name,
        batches,
        counted: None,
    }
}

/// Whether a row without numbers is something that the user asked for.
fn is_wanted(row: &DocumentRow, devices: &[VmmDeviceName]) -> bool {
    let Err(reason) = &row.result else {
        return true;
    };
    let kind = row
        .name
        .strip_prefix("virtio-")
        .and_then(|rest| rest.split('-').next());
    let is_asked_for = kind.is_none_or(|kind| devices.iter().any(|device| device.name() == kind));
    is_asked_for && reason != NOT_ASKED_FOR
}

fn empty(disk: &Path) -> io::Result<()> {
    match fs::remove_file(disk) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::File::create_new(disk)?.set_len(DISK)
}

#[cfg(test)]
#[path = "boot_test.rs"]
mod tests;
