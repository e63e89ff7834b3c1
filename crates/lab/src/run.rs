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

/// How often a boot is retried if L1's kernel panicked and there is no report.
const RETRIES: u32 = 1;

/// The parts of the lab that a run needs.
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
    /// Keeps `clean` from removing the cache.
    pub lock: Use,
    /// Prints messages and progress.
    pub progress: Progress,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// How often L1 was booted again.
    pub retries: u32,
    /// CPU time of QEMU, all boots together.
    pub cpu: Duration,
    /// Time of all boots together.
    pub wall: Duration,
    /// Remarks of L1's init.
    pub notes: Vec<String>,
}

impl Lab {
    /// Boots L1 and runs `task`; the program's output goes to this process's own streams while it runs.
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
            // No spinner for a user who types input or sees the console.
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

/// The report of a boot, or the error that explains why there is none.
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
    // Status 1 is a failure of QEMU itself here: a program that succeeded has a report.
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
