//! The boots of a gate: each runs this program as `vmbell lab --deterministic`, with its own seed.
//!
//! Threads start the labs, one for each CPU. Each boot runs on its own emulated CPU and counts instructions, so boots
//! do not disturb each other's figures.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;
use vmbell::sync::Mutex;
use vmbell_bench::CommandLimit;
use vmbell_report::Report;

use super::baseline::file_name;
use super::plan::{GateMachine, GatePlan};
use crate::compare;
use crate::exit::Exit;
use crate::output::text::lines_of;
use crate::process::{ProgramEnd, ProgramOutput, ProgramTask, run};

/// An upper bound; the lab's own limits end a hanging boot first.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// A boot of Linux executes 1,000,000,000 instructions; a hanging guest runs until this limit.
const RUN_TIMEOUT: &str = "4s";
/// The status if VMMs failed or cannot run in the lab; the report has the reasons.
const VMM_FAILED: i32 = Exit::Failed as i32;
const VMM_SKIPPED: i32 = Exit::Skipped as i32;
/// How many last lines of a lab's output are shown if it fails.
const LAST_LINES: usize = 12;

/// What is booted, and how.
pub(super) struct Boots<'a> {
    pub(super) plan: &'a GatePlan,
    pub(super) machines: &'a [GateMachine],
    /// The seed of the first boot.
    pub(super) seed: u32,
    /// How many labs run at the same time.
    pub(super) jobs: usize,
    /// The folder in which the reports are kept.
    pub(super) keep: Option<&'a Path>,
    pub(super) quiet: bool,
    pub(super) limit: &'a CommandLimit,
    /// Fails if the report of a boot of this machine cannot be compared with its baseline. In that case the reports of
    /// the other boots could not be compared either.
    pub(super) check: &'a (dyn Fn(&GateMachine, &Report) -> Result<()> + Sync),
}

/// One boot of a lab.
#[derive(Clone, Copy)]
struct Boot<'a> {
    machine: &'a GateMachine,
    seed: u32,
}

impl Boots<'_> {
    /// Downloads what the labs need, so that they do not wait for each other. Its output is shown as progress, not on
    /// stdout.
    pub(super) fn prepare(&self) -> Result<Option<Exit>> {
        let mut command = Command::new(own()?);
        command.args(["lab", "prepare"]);
        if self.quiet {
            command.arg("--quiet").stdout(Stdio::null());
        } else {
            command.stdout(io::stderr());
        }
        let mut given = Vec::new();
        for machine in self.machines {
            let cpu = machine.cpu.as_ref().map(|cpu| ("--cpu", cpu));
            for option in [Some(("--kernel", &machine.kernel)), cpu]
                .into_iter()
                .flatten()
            {
                if !given.contains(&option) {
                    given.push(option);
                    command.arg(option.0).arg(option.1);
                }
            }
        }
        let status = command.status().context("cannot start vmbell lab")?;
        let failed = match self.limit.stop() {
            Some(_) => Exit::Interrupted,
            // The lab has printed why it failed.
            None => Exit::Lab,
        };
        Ok((!status.success()).then_some(failed))
    }

    /// Runs all boots, and returns the reports of each machine; `None` if the command was interrupted.
    pub(super) fn measure(
        &self,
        progress: &ProgressBar,
    ) -> Result<Option<BTreeMap<GateMachine, Vec<Report>>>> {
        let folder =
            TempDir::with_prefix("vmbell-gate-").context("cannot make a temporary folder")?;
        let folder = self.keep.unwrap_or(folder.path());
        let seeds = self.seed..=self.seed.saturating_add(self.plan.boots - 1);
        // The first boot of each machine precedes all second boots, because it may be refused.
        let of_seed = |seed| {
            let machines = self.machines.iter();
            machines.map(move |machine| Boot { machine, seed })
        };
        let all: Vec<Boot<'_>> = seeds.flat_map(of_seed).collect();
        progress.set_length(all.len() as u64);
        let mut booted = on_threads(all, self.jobs, |boot| {
            let report = self.boot(boot, folder)?;
            if let Some(report) = &report {
                (self.check)(boot.machine, report)?;
            }
            progress.inc(1);
            Ok((boot, report))
        })?;
        booted.sort_by_key(|(boot, _)| boot.seed);
        let mut reports: BTreeMap<GateMachine, Vec<Report>> = BTreeMap::new();
        for (boot, report) in booted {
            let Some(report) = report else {
                return Ok(None);
            };
            reports
                .entry(boot.machine.clone())
                .or_default()
                .push(report);
        }
        Ok(Some(reports))
    }

    /// Boots one lab, in which every VMM runs; `None` if it was interrupted.
    fn boot(&self, boot: Boot<'_>, folder: &Path) -> Result<Option<Report>> {
        let path = folder.join(format!("{}-{}.json", file_name(boot.machine), boot.seed));
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
                boot.machine,
                boot.seed,
                last_lines(&ended)
            );
        }
        Ok(Some(compare::read(&path)?))
    }

    /// The command line of a boot.
    fn words(&self, boot: Boot<'_>, report: &Path) -> Result<Vec<OsString>> {
        let plan = self.plan;
        let seed = boot.seed.to_string();
        let mut words = vec![own()?.into_os_string()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        // QEMU may crash, so boots are retried.
        add(&[
            "lab",
            "kernel",
            "--deterministic",
            "--retries",
            "1",
            "--kernel",
            &boot.machine.kernel,
            "--seed",
            &seed,
        ]);
        if let Some(cpu) = &boot.machine.cpu {
            add(&["--cpu", cpu]);
        }
        for file in plan.vmm.values().flat_map(|vmm| &vmm.with) {
            add(&["--with", file]);
        }
        add(&[
            "--", "vmbell", "bench", "vmms", "--exits", "on", "--seed", &seed,
        ]);
        add(&[
            "--style",
            "basic",
            "--no-warnings",
            "--run-timeout",
            RUN_TIMEOUT,
        ]);
        for (option, values) in [("--rows", &plan.rows), ("--virtio", &plan.virtio)] {
            if !values.is_empty() {
                add(&[option, &values.join(",")]);
            }
        }
        if plan.linux {
            add(&["--linux"]);
        }
        for (name, vmm) in &plan.vmm {
            if let Some(command) = &vmm.command {
                add(&["--vmm", &format!("{name}={command}")]);
            }
        }
        words.extend(["--export-json".into(), report.into()]);
        words.extend(plan.vmm.keys().map(Into::into));
        Ok(words)
    }
}

/// Calls `work` for each item on this number of threads. After an error no further item is begun, because it would most
/// likely fail too.
fn on_threads<T: Send, R: Send>(
    items: Vec<T>,
    jobs: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items = Mutex::new(items.into_iter());
    // The lock is not held during the work.
    let next = || items.lock().next();
    let worker = || -> Result<Vec<R>> {
        let mut done = Vec::new();
        while let Some(item) = next() {
            let result = work(item);
            if result.is_err() {
                items.lock().by_ref().for_each(drop);
            }
            done.push(result?);
        }
        Ok(done)
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(ScopedJoinHandle::join);
        ended.collect()
    });
    let done = ended
        .into_iter()
        .map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)));
    Ok(done
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// The path of this program.
fn own() -> Result<std::path::PathBuf> {
    crate::process::program::own().map_err(anyhow::Error::msg)
}

/// The last lines that a lab printed on standard error; they may come from its guests.
fn last_lines(ended: &ProgramOutput) -> String {
    let lines = lines_of(&ended.errors);
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::gate::plan::tests::plan;

    #[test]
    fn what_a_lab_printed_last_reaches_no_terminal_as_an_escape() {
        let lines: String = (0..100)
            .map(|line| format!("\x1b[31m{line}\r\n\n"))
            .collect();
        let ended = ProgramOutput {
            output: Vec::new(),
            errors: lines.into_bytes(),
            end: ProgramEnd::Lingered,
        };
        let last = last_lines(&ended);
        assert_eq!(last.lines().count(), LAST_LINES);
        assert!(last.ends_with("[31m98\n[31m99"), "{last:?}");
    }

    #[test]
    fn a_boot_has_what_the_plan_names() {
        let words = |text: &str| {
            let plan = plan(text);
            let machine = GateMachine {
                kernel: "debian:6.12".to_owned(),
                cpu: plan.cpus.first().cloned(),
            };
            let boots = Boots {
                plan: &plan,
                machines: std::slice::from_ref(&machine),
                seed: 1,
                jobs: 1,
                keep: None,
                quiet: true,
                limit: &CommandLimit::none(),
                check: &|_, _| Ok(()),
            };
            let boot = Boot {
                machine: &machine,
                seed: 7,
            };
            let words = boots.words(boot, Path::new("r.json")).unwrap();
            let words = words[1..].iter().map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join(" ")
        };
        let lab = "lab kernel --deterministic --retries 1 --kernel debian:6.12 --seed 7";
        let bench =
            "-- vmbell bench vmms --exits on --seed 7 --style basic --no-warnings --run-timeout 4s";
        let kernels = "kernels = [\"debian:6.12\"]";
        assert_eq!(
            words(&format!("{kernels}\n[vmm.alioth]\n")),
            format!("{lab} {bench} --export-json r.json alioth")
        );
        assert_eq!(
            words(&format!("{kernels}\ncpus = [\"intel\"]\n[vmm.alioth]\n")),
            format!("{lab} --cpu intel {bench} --export-json r.json alioth")
        );
        let all = "rows = [\"cpuid\", \"hlt-wake\"]\nvirtio = [\"rng\", \"blk\"]\nlinux = true";
        let mine = "command = \"mine {image}\"\nwith = [\"a\", \"b:/c\"]";
        assert_eq!(
            words(&format!(
                "{kernels}\n{all}\n[vmm.alioth]\n[vmm.mine]\n{mine}\n"
            )),
            format!(
                "{lab} --with a --with b:/c {bench} --rows cpuid,hlt-wake --virtio rng,blk --linux \
                 --vmm mine=mine {{image}} --export-json r.json alioth mine"
            )
        );
    }

    #[test]
    fn items_are_worked_on_at_the_same_time() {
        let both = Barrier::new(2);
        let items = vec![1, 2, 3, 4];
        // Both items of a pair wait for each other.
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
            begun.lock().push(item);
            match item {
                3 => bail!("no {item}"),
                _ => Ok(()),
            }
        });
        assert_eq!(error.unwrap_err().to_string(), "no 3");
        assert_eq!(*begun.lock(), [0, 1, 2, 3]);
    }
}
