//! Runs a program in the lab.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::begin::{Began, Beginning};
use super::boot::{ANSWERING, BochsPlan, LabBootPlan, LabBootResult, Settings, Sinks, TimeMode};
use super::files::{OutFiles, temporary};
use super::job::{NamedExits, ProgramEnding, RunReport, decode_debug_exit};
use super::lab::{Emulator, Lab};
use super::nest::{self, Initramfs, RunWindow};
use super::payload::LabTask;
use super::progress::{LabProgress, WaitingSpinner};
use crate::error::{LabError, LabFailure, cannot, failed};

/// How often a machine that crashed before the program began is booted again.
const BOOTS: u32 = 1;

/// What QEMU prints if a saved state does not fit the machine.
const RESTORE_FAILED: &str = "load of migration failed";

/// The result of a run.
#[derive(Debug)]
pub struct LabOutcome {
    /// How the program ended.
    pub ending: ProgramEnding,
    /// Time from the start of the emulator to the start of the program.
    pub started: Duration,
    /// The files that the program left in `/out`; `None` if the task does not ask for them.
    pub files: Option<OutFiles>,
    /// How often L1 was started again, with the program starting at the same or at a different moment.
    pub retries: u32,
    /// How the machine began.
    pub began: Began,
    /// CPU time of the emulator, summed over all boots.
    pub cpu: Duration,
    /// Elapsed time of all boots.
    pub wall: Duration,
    /// Why a part of the program's output was lost, if it was.
    pub unwritten: Option<io::Error>,
    /// Remarks of L1's init.
    pub notes: Vec<String>,
    /// Exits of L1's guests by their codes, if they were counted.
    pub exits: Vec<(u32, u64)>,
    /// Exits between each two marks of the program.
    pub between_marks: Vec<NamedExits>,
}

impl LabOutcome {
    /// Returns the exit status of the run, or an error if the program was still running at its time limit.
    pub fn status(&self, settings: &Settings) -> Result<u8, LabError> {
        match &self.ending {
            // The program was asked to end, or killed in L1, and its output was received.
            ProgramEnding::Stopped => {
                let limit = over_limit(self.started, settings.limits.program);
                Err(
                    failed!("{limit}, without the time in which the emulator waited for a CPU")
                        .of(LabFailure::TimeLimit),
                )
            }
            ending => Ok(ending.status()),
        }
    }
}

impl Lab {
    /// Boots L1 and runs `task`. The program's output goes to this process's own streams as it is written. If L1
    /// crashes, the program starts over, at most `retries` times, and not if it has standard input.
    pub fn run(
        &self,
        task: &LabTask,
        settings: &Settings,
        retries: u32,
    ) -> Result<LabOutcome, LabError> {
        self.run_into(task, settings, retries, |waiting| {
            Box::new(waiting.around(io::stdout()))
        })
    }

    /// Like [`run`](Self::run), but without retries, and with the program's standard output going to `stdout`.
    pub fn run_once(
        &self,
        task: &LabTask,
        settings: &Settings,
        stdout: impl Write + Send + Clone + 'static,
    ) -> Result<LabOutcome, LabError> {
        self.run_into(task, settings, 0, |waiting| {
            Box::new(waiting.around(stdout.clone()))
        })
    }

    /// Saves the machine with these settings, unless a saved state exists, so that later runs begin there. Returns the
    /// reason if the machine cannot be saved.
    pub fn save(&self, settings: &Settings) -> Result<Option<String>, LabError> {
        // The memory of a machine with another Linux inside depends on what a run gives it: here almost nothing.
        let task = LabTask {
            program: (&self.init).into(),
            ..LabTask::default()
        };
        let mut settings = self.with_kvm_parameters(settings);
        let header = nest::header(settings.mode)?;
        let (initramfs, window) = nest::files(self, &task, &mut settings, header)?;
        Ok(match self.begin(&settings, &window, &initramfs) {
            Beginning::Saved(_) => None,
            Beginning::Boot(reason) => reason,
        })
    }

    fn run_into(
        &self,
        task: &LabTask,
        settings: &Settings,
        most_retries: u32,
        stdout: impl Fn(&WaitingSpinner) -> Box<dyn Write + Send>,
    ) -> Result<LabOutcome, LabError> {
        let mut settings = self.with_kvm_parameters(settings);
        let mut retries = 0;
        loop {
            let result = self.run_at_moment(task, &settings, most_retries, &mut retries, &stdout);
            // If the program were started at the same moment again, it would spin again.
            let error = match &result {
                Err(error) if error.kind() == LabFailure::Spun => error,
                _ => return result,
            };
            if task.stdin || retries >= most_retries {
                return result;
            }
            retries += 1;
            settings.moment += 1;
            self.progress.say(format_args!(
                "running it once more, at another moment: {error}"
            ));
        }
    }

    fn run_at_moment(
        &self,
        task: &LabTask,
        settings: &Settings,
        most_retries: u32,
        retries: &mut u32,
        stdout: impl Fn(&WaitingSpinner) -> Box<dyn Write + Send>,
    ) -> Result<LabOutcome, LabError> {
        let mut settings = settings.clone();
        let first = nest::header(settings.mode)?;
        let (initramfs, window) = nest::files(self, task, &mut settings, first)?;
        let settings = &settings;
        let mut beginning = self.begin(settings, &window, &initramfs);
        let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
        let is_deterministic = matches!(settings.mode, TimeMode::Deterministic { .. });
        loop {
            let files = OutFiles::new().map_err(temporary)?;
            let sink = files.sink().map_err(cannot("copy", "a file"))?;
            // No progress spinner is shown to a user who types input or sees the console.
            let quiet = task.stdin || settings.show_console;
            let waiting = if quiet {
                LabProgress::new(true)
            } else {
                self.progress
            }
            .wait();
            let sinks = Sinks {
                stdout: stdout(&waiting),
                stderr: Box::new(waiting.around_messages(io::stderr())),
                files: Box::new(sink),
                stdin: task.stdin.then(|| Box::new(io::stdin()) as _),
                // Telling L1 causes an interrupt, which would change the counts that a program writes into its files.
                tells_unread: !(is_deterministic && task.out),
                messages: |_| {},
            };
            let mut booted = self.boot_once(&beginning, &initramfs, &window, settings, sinks)?;
            drop(waiting);
            cpu += booted.cpu;
            wall += booted.wall;
            let crash = crash(&booted, self.emulator.name());
            if crash.is_some() || booted.started.is_none() {
                beginning = beginning.after_a_fault()?;
            }
            // A second start repeats what the program does, and a program that reads standard input would not get the
            // same input.
            let most = match booted.started {
                _ if task.stdin => 0,
                Some(_) => most_retries,
                None => most_retries.max(BOOTS),
            };
            if let Some(crash) = crash
                && *retries < most
            {
                *retries += 1;
                self.progress.say(format_args!(
                    "{crash} and left no exit code; starting it once more; {}",
                    booted.said().trim_end()
                ));
                continue;
            }
            let started = booted.started.unwrap_or_default();
            let unwritten = booted.unwritten.take();
            let report = conclude(booted, self.emulator.name(), settings, *retries + 1)?;
            // The reason from a Linux's init already names that Linux.
            let (kind, reason) = match report.ending {
                ProgramEnding::Failed(reason) => (LabFailure::Boot, reason),
                ProgramEnding::Unanswered(reason) => (LabFailure::TimeLimit, reason),
                ProgramEnding::Spun(reason) => (LabFailure::Spun, reason),
                ending => {
                    return Ok(LabOutcome {
                        ending,
                        started,
                        files: task.out.then_some(files),
                        retries: *retries,
                        began: beginning.into(),
                        cpu,
                        wall,
                        unwritten,
                        notes: report.notes,
                        exits: report.exits,
                        between_marks: report.between_marks,
                    });
                }
            };
            return Err(LabError::new(reason).of(kind));
        }
    }

    /// Starts L1 in its emulator and waits for its end.
    fn boot_once(
        &self,
        beginning: &Beginning,
        initramfs: &Initramfs<'_>,
        window: &RunWindow,
        settings: &Settings,
        sinks: Sinks,
    ) -> Result<LabBootResult, LabError> {
        let header = nest::header(settings.mode)?;
        let qemu = match &self.emulator {
            Emulator::Qemu(qemu) => qemu,
            Emulator::Bochs(bochs, cpu) => {
                return BochsPlan {
                    board: &self.board,
                    bochs,
                    cpu: *cpu,
                    vmbell: &self.vmbell,
                    kernel: &self.kernel.image,
                    initramfs: initramfs.file()?,
                    window: (&window.file, window.length),
                    header,
                    settings,
                }
                .run(sinks);
            }
        };
        window.begin(header)?;
        let saved = beginning.files();
        LabBootPlan {
            initramfs: match saved {
                Some(_) => None,
                None => Some(initramfs.file()?),
            },
            ..self.boot(qemu, settings, &window.file)
        }
        .run(saved, sinks)
    }
}

/// Returns why to boot again after a boot without a report: L1 panicked or hung, or its emulator crashed or did
/// not restore it.
fn crash(booted: &LabBootResult, emulator: &str) -> Option<String> {
    if booted.report.is_some() {
        return None;
    }
    if booted.console.loader_failed().is_some() {
        // The next boot would fail in the same way.
        return None;
    }
    if booted.console.panicked() {
        return Some("L1's kernel panicked".to_owned());
    }
    if booted.silent {
        return Some("L1 stopped answering".to_owned());
    }
    if booted.refused.is_some() || booted.vmm_errors.contains(RESTORE_FAILED) {
        return Some("QEMU could not restore L1".to_owned());
    }
    // A QEMU that this process killed has no status.
    let status = booted.status.filter(|status| status.signal().is_some())?;
    Some(format!("{emulator} crashed ({status})"))
}

/// Returns the report of a boot, or the error that explains why there is none.
fn conclude(
    booted: LabBootResult,
    emulator: &str,
    settings: &Settings,
    boots: u32,
) -> Result<RunReport, LabError> {
    let said = booted.said();
    if let Some(report) = booted.report {
        return Ok(report);
    }
    if let Some(reason) = booted.console.loader_failed() {
        return Err(failed!("L1: {reason}").of(LabFailure::Boot));
    }
    let console = format!("its console ends with:\n{}", booted.console.tail());
    let in_each = match boots {
        1 => String::new(),
        boots => format!(" in each of {boots} boots"),
    };
    if booted.console.panicked() {
        return Err(
            failed!("L1's kernel panicked{in_each}; {console}").of(LabFailure::Crash(boots))
        );
    }
    if booted.silent {
        return Err(failed!(
            "L1 stopped answering{in_each}: it was asked whether it runs and said nothing for {} s; {console}",
            seconds(ANSWERING)
        )
        .of(LabFailure::Silent(boots)));
    }
    let Some(status) = booted.status else {
        let limits = settings.limits;
        let error = match booted.started {
            Some(started) => {
                let limit = over_limit(started, limits.program);
                failed!("{limit}, and L1 does not answer; {console}")
            }
            None => failed!(
                "L1 did not start the program within {} s (--boot-timeout), in which {emulator} had {} s of CPU; {console}",
                seconds(limits.boot),
                seconds(booted.cpu)
            ),
        };
        return Err(error.of(LabFailure::TimeLimit));
    };
    if status.signal().is_some() {
        let error = failed!("{emulator} crashed{in_each} ({status}): {said}");
        return Err(error.of(LabFailure::Crash(boots)));
    }
    // Here status 1 means that QEMU itself failed: a program that succeeded has a report.
    let status = match status.code().map(|code| (code, decode_debug_exit(code))) {
        Some((code, Some(exit))) if code != 1 => {
            format!("exit status {code}, L1's debug-exit code {exit}")
        }
        _ => status.to_string(),
    };
    Err(
        failed!("{emulator} ended ({status}) without a report from L1: {said}")
            .of(LabFailure::Boot),
    )
}

fn over_limit(started: Duration, limit: Duration) -> String {
    format!(
        "the program started at {} s and did not end: its limit is {} s (--timeout)",
        seconds(started),
        seconds(limit)
    )
}

/// Converts to seconds with at most one decimal place.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
