//! The boots of a gate: each is this program's own `vmbell lab --deterministic`, with a seed of its own.
//!
//! Threads start the labs, one for each CPU; a boot counts on one emulated CPU, so they do not disturb one another's figures.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;
use vmbell_bench::CommandLimit;
use vmbell_report::Report;
use vmbell_report::gate::{Measured, Place, Samples};

use super::budget::Budget;
use crate::compare;
use crate::exit::Exit;
use crate::process::{ProgramEnd, ProgramOutput, ProgramTask, run};

/// No boot takes as long; its own limits end one that hangs.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// A boot of Linux executes 1,000,000,000 instructions; a guest that hangs executes them until its limit.
const RUN_TIMEOUT: &str = "4s";
/// The statuses of VMMs that failed or cannot run there, which the report tells of.
const VMM_FAILED: i32 = Exit::Failed as i32;
const VMM_SKIPPED: i32 = Exit::Skipped as i32;
/// The last lines of what a lab printed that are shown if it fails.
const LAST_LINES: usize = 12;

/// What is booted, and how.
pub(super) struct Boots<'a> {
    pub(super) budget: &'a Budget,
    pub(super) kernels: &'a [String],
    /// The seed of the first boot.
    pub(super) seed: u32,
    /// How many labs run at a time.
    pub(super) jobs: usize,
    /// Where the reports are kept.
    pub(super) keep: Option<&'a Path>,
    pub(super) quiet: bool,
    pub(super) limit: &'a CommandLimit,
}

/// One boot of a lab.
#[derive(Clone, Copy)]
struct Boot<'a> {
    kernel: &'a str,
    seed: u32,
}

/// What a boot gave: its report, or nothing if all is to end.
type Given<'a> = (Boot<'a>, Option<Report>);

impl Boots<'_> {
    /// Downloads what the labs need, so that they do not wait for one another. What it prints is progress here, and none of the
    /// gate's result on stdout.
    pub(super) fn prepare(&self) -> Result<Option<Exit>> {
        let mut command = Command::new(own()?);
        command.args(["lab", "prepare"]);
        if self.quiet {
            command.arg("--quiet").stdout(Stdio::null());
        } else {
            command.stdout(io::stderr());
        }
        for kernel in self.kernels {
            command.arg("--kernel").arg(kernel);
        }
        let status = command.status().context("cannot start vmbell lab")?;
        let failed = match self.limit.stop() {
            Some(_) => Exit::Interrupted,
            // It has said why.
            None => Exit::Lab,
        };
        Ok((!status.success()).then_some(failed))
    }

    /// Boots all, and returns what each VMM on each kernel gave; `None` if the command was interrupted.
    pub(super) fn measure(
        &self,
        progress: &ProgressBar,
    ) -> Result<Option<BTreeMap<Place, Measured>>> {
        let folder =
            TempDir::with_prefix("vmbell-gate-").context("cannot make a temporary folder")?;
        let folder = self.keep.unwrap_or(folder.path());
        let seeds = || self.seed..=self.seed.saturating_add(self.budget.boots - 1);
        let of_kernel = |kernel| seeds().map(move |seed| Boot { kernel, seed });
        let all: VecDeque<Boot<'_>> = self.kernels.iter().flat_map(|k| of_kernel(k)).collect();
        progress.set_length(all.len() as u64);
        let given = on_threads(all, self.jobs, |boot| {
            let booted = self.boot(boot, folder)?;
            progress.inc(1);
            Ok((boot, booted))
        })?;
        Ok(self.collected(given))
    }

    /// Boots one lab, in which every VMM runs.
    fn boot(&self, boot: Boot<'_>, folder: &Path) -> Result<Option<Report>> {
        let path = folder.join(format!("{}-{}.json", file_name(boot.kernel), boot.seed));
        let words = self.words(boot, &path)?;
        let ended =
            run(&ProgramTask::new(&words, LONGEST, self.limit)).context("cannot run vmbell lab")?;
        let status = match &ended.end {
            ProgramEnd::Stopped => return Ok(None),
            ProgramEnd::Exited(status) => status.code(),
            _ => None,
        };
        if !matches!(status, Some(0 | VMM_FAILED | VMM_SKIPPED)) || !path.exists() {
            bail!(
                "the lab with {} and seed {} failed:\n{}",
                boot.kernel,
                boot.seed,
                last_lines(&ended)
            );
        }
        Ok(Some(compare::read(&path)?))
    }

    /// The command line of a boot.
    fn words(&self, boot: Boot<'_>, report: &Path) -> Result<Vec<OsString>> {
        let budget = self.budget;
        let seed = boot.seed.to_string();
        let mut words: Vec<OsString> = vec![own()?.into_os_string()];
        words.extend(
            [
                "lab",
                "--deterministic",
                "--kernel",
                boot.kernel,
                "--seed",
                &seed,
                // The emulator has faults of its own.
                "--retries",
                "1",
            ]
            .map(Into::into),
        );
        for file in budget.vmm.values().flat_map(|vmm| &vmm.with) {
            words.extend(["--with", file].map(Into::into));
        }
        words.extend(
            [
                "--", "vmbell", "bench", "vmms", "--exits", "on", "--seed", &seed,
            ]
            .map(Into::into),
        );
        words.extend(["--style", "basic", "--no-warnings"].map(Into::into));
        words.extend(["--run-timeout", RUN_TIMEOUT].map(Into::into));
        for (option, values) in [("--rows", &budget.rows), ("--virtio", &budget.virtio)] {
            if !values.is_empty() {
                words.extend([option, &values.join(",")].map(Into::into));
            }
        }
        if budget.linux {
            words.push("--linux".into());
        }
        for (name, vmm) in &budget.vmm {
            if let Some(command) = &vmm.command {
                words.extend(["--vmm".into(), format!("{name}={command}").into()]);
            }
        }
        words.extend(["--export-json".into(), report.into()]);
        words.extend(budget.vmm.keys().map(Into::into));
        Ok(words)
    }

    /// What the boots gave, by VMM and kernel; `None` if one was stopped.
    fn collected(&self, mut given: Vec<Given<'_>>) -> Option<BTreeMap<Place, Measured>> {
        given.sort_by_key(|(boot, _)| boot.seed);
        let mut samples: BTreeMap<Place, Samples> = BTreeMap::new();
        for (boot, report) in given {
            let report = report?;
            for vmm in self.budget.vmm.keys() {
                let place = Place {
                    kernel: boot.kernel.to_owned(),
                    vmm: vmm.clone(),
                };
                samples
                    .entry(place)
                    .or_default()
                    .add(&report, vmm, boot.seed);
            }
        }
        let measured = samples.into_iter();
        Some(
            measured
                .map(|(place, samples)| (place, samples.measured()))
                .collect(),
        )
    }
}

/// Does `work` with each item, on so many threads. After an error no further item is begun, since the others would most likely
/// fail alike.
fn on_threads<T: Send, R: Send>(
    items: VecDeque<T>,
    jobs: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (queue, done) = (Mutex::new(items), Mutex::new(Vec::new()));
    let worker = || -> Result<()> {
        loop {
            // The lock is not held during the work.
            let Some(item) = lock(&queue).pop_front() else {
                return Ok(());
            };
            match work(item) {
                Ok(result) => lock(&done).push(result),
                Err(error) => {
                    lock(&queue).clear();
                    return Err(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // All are joined before the first error is returned.
        ended
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<()>>()
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The path of this program.
fn own() -> Result<std::path::PathBuf> {
    crate::process::program::own().map_err(anyhow::Error::msg)
}

/// A kernel as part of a file's name, which no other kernel has: bytes that a name cannot have are written as in a URL.
fn file_name(kernel: &str) -> String {
    let mut name = String::new();
    for byte in kernel.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => name.push(byte.into()),
            // Writing to a String cannot fail.
            _ => drop(write!(name, "%{byte:02x}")),
        }
    }
    name
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of what a lab printed on standard error.
fn last_lines(ended: &ProgramOutput) -> String {
    let text = String::from_utf8_lossy(&ended.errors);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn items_are_worked_on_at_the_same_time() {
        let both = Barrier::new(2);
        let items = VecDeque::from([1, 2, 3, 4]);
        // Each pair waits for its other one.
        let mut done = on_threads(items, 2, |item| {
            both.wait();
            Ok(item)
        })
        .unwrap();
        done.sort_unstable();
        assert_eq!(done, [1, 2, 3, 4]);
    }

    #[test]
    fn after_an_error_nothing_further_is_begun() {
        let begun = Mutex::new(Vec::new());
        let items = (0..10).collect();
        let error = on_threads(items, 1, |item| {
            lock(&begun).push(item);
            match item {
                3 => bail!("no {item}"),
                _ => Ok(()),
            }
        });
        assert_eq!(error.unwrap_err().to_string(), "no 3");
        assert_eq!(*lock(&begun), [0, 1, 2, 3]);
    }

    #[test]
    fn two_kernels_never_share_the_file_of_a_report() {
        assert_eq!(file_name("debian:6.12"), "debian%3a6.12");
        assert_eq!(file_name("./b/vmlinuz-6.1"), ".%2fb%2fvmlinuz-6.1");
        let names = ["a/b", "a-b", "a:b", "a%2fb", "ä"].map(file_name);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
