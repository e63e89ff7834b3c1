//! Runs a program in the lab.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::board::Board;
use super::boot::{Boot, BootError, Booted, Mode, Settings, Sinks};
use super::cache::Use;
use super::initramfs::InitramfsError;
use super::job::{Ending, Report, decode_debug_exit};
use super::qemu::Qemu;
use super::{Kernel, LabError, Progress, Task, payload};

/// A kernel panic without an answer is retried this often.
const RETRIES: u32 = 1;

/// Everything that a run needs.
#[derive(Debug)]
pub struct Lab {
    /// The machine.
    pub board: Board,
    /// The emulator.
    pub qemu: Qemu,
    /// The kernel.
    pub kernel: Kernel,
    /// The `vmbell` program: it starts QEMU and is process 1 in L1.
    pub vmbell: PathBuf,
    /// Keeps the cache in place.
    pub lock: Use,
    /// Where remarks go.
    pub progress: Progress,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// Boots after the first.
    pub retries: u32,
    /// CPU time of QEMU, all boots together.
    pub cpu: Duration,
    /// Time of all boots together.
    pub wall: Duration,
    /// Remarks of L1's init.
    pub notes: Vec<String>,
}

impl Lab {
    /// Boots L1 and runs `task`; its output goes to this process's own streams as it comes.
    pub fn run(&self, task: &Task, settings: &Settings) -> Result<Outcome, LabError> {
        let scratch = tempfile::tempdir()
            .map_err(InitramfsError::io("make a folder in", std::env::temp_dir()))?;
        let initramfs = scratch.path().join("initramfs.cpio");
        self.write_initramfs(task, settings.mode, &initramfs)?;
        let boot = Boot {
            board: &self.board,
            qemu: &self.qemu,
            vmbell: &self.vmbell,
            kernel: &self.kernel.image,
            initramfs: &initramfs,
            settings,
        };
        let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
        for retries in 0.. {
            let files = tempfile::tempfile()
                .map_err(InitramfsError::io("make a file in", std::env::temp_dir()))?;
            let sink = files
                .try_clone()
                .map_err(BootError::channel("copy a file"))?;
            // Whoever types or reads the console has signs of life enough.
            let quiet = task.stdin || settings.show_console;
            let waiting = if quiet {
                Progress::new(true)
            } else {
                self.progress
            }
            .wait();
            let booted = boot.run(Sinks {
                stdout: Box::new(waiting.around(io::stdout())),
                stderr: Box::new(waiting.around(io::stderr())),
                files: Box::new(sink),
                stdin: task.stdin,
            })?;
            drop(waiting);
            cpu += booted.cpu;
            wall += booted.wall;
            if booted.report.is_none()
                && booted.status.is_some()
                && booted.console.panicked()
                && retries < RETRIES
            {
                self.progress.say(format_args!(
                    "L1's kernel panicked and left no exit code; starting it once more; its \
                     console ended with:\n{}",
                    booted.console.tail().trim_end()
                ));
                continue;
            }
            let report = conclude(booted, settings, retries)?;
            if let Some(folder) = &task.out {
                unpack(files, folder)?;
            }
            if let Ending::Failed(reason) = report.ending {
                return Err(BootError::Program { reason }.into());
            }
            return Ok(Outcome {
                ending: report.ending,
                retries,
                cpu,
                wall,
                notes: report.notes,
            });
        }
        unreachable!("the last retry returns")
    }

    fn write_initramfs(&self, task: &Task, mode: Mode, path: &Path) -> Result<(), LabError> {
        let failed = |action| InitramfsError::io(action, path);
        let mut base =
            File::open(&self.kernel.base).map_err(InitramfsError::io("read", &self.kernel.base))?;
        let mut file = File::create(path).map_err(failed("make"))?;
        io::copy(&mut base, &mut file).map_err(failed("write"))?;
        let mut output = BufWriter::with_capacity(1 << 20, file);
        payload::write(
            &self.board,
            &self.kernel,
            &self.vmbell,
            task,
            mode,
            &mut output,
        )?;
        output.flush().map_err(failed("write"))?;
        Ok(())
    }
}

/// Turns what was seen into a report or the error that explains its absence.
fn conclude(booted: Booted, settings: &Settings, retries: u32) -> Result<Report, BootError> {
    if let Some(report) = booted.report {
        return Ok(report);
    }
    let console = booted.console.tail();
    let Some(status) = booted.status else {
        return Err(BootError::TimeLimit {
            limit: settings.limit,
            console,
        });
    };
    if booted.console.panicked() {
        return Err(BootError::Panic {
            boots: retries + 1,
            console,
        });
    }
    // 1 is how QEMU itself fails, and success has a report.
    let status = match status.code().map(|code| (code, decode_debug_exit(code))) {
        Some((code, Some(exit))) if code != 1 => {
            format!("exit status {code}, L1's debug-exit code {exit}")
        }
        _ => status.to_string(),
    };
    let said = if booted.qemu_errors.is_empty() {
        format!("its console ends with:\n{console}")
    } else {
        booted.qemu_errors
    };
    Err(BootError::NoReport { status, said })
}

fn unpack(mut archive: File, folder: &Path) -> Result<(), BootError> {
    let unpacked = archive
        .rewind()
        .and_then(|()| std::fs::create_dir_all(folder))
        .and_then(|()| tar::Archive::new(archive).unpack(folder));
    unpacked.map_err(|source| BootError::Files {
        folder: folder.to_path_buf(),
        source,
    })
}
