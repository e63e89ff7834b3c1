//! `vmbell vmm`: runs one guest image in every VMM that there is, and compares what it measures from inside.
//!
//! `launcher` knows the VMMs and their command lines, `turns` boots them through `process`, `serial` and `document` read
//! what they print, which is not trusted, and `rows` makes a report of it. The image is the crate `vmbell-probe-image`.

mod alioth;
mod args;
mod document;
mod image;
mod launcher;
mod process;
mod pty;
mod qemu;
mod rows;
mod serial;
mod template;
mod turns;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};

use self::args::Accel;
pub(super) use self::args::VmmArgs;
use self::launcher::{Launcher, known};
use self::process::Task;
use self::rows::Facts;
use self::turns::Column;
use super::exit::{Exit, Usage};
use super::exports::Exports;
use super::interrupt;
use super::measured::{clock, exit_of};
use super::output::print;
use super::style::{self, Style};
use super::suggest::did_you_mean;
use vmbell_bench::{host, timing};
use vmbell_report::{
    Backend, Look, Planned, Report, SCHEMA_VERSION, Status, Tool, Tsc, Vmm, rfc3339,
};

/// How long a program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The path of alioth's program, or why there is none.
pub(super) fn alioth_on_path() -> Result<PathBuf, String> {
    Launcher::Alioth.find()
}

/// Runs the image in the VMMs.
pub(super) fn run(args: &VmmArgs) -> Result<Exit> {
    if let Some(command) = &args.command {
        return image::run(command);
    }
    let launchers = chosen(args)?;
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    if args.list {
        return list(&launchers, interrupted);
    }
    if vmbell_probe_image::ELF.is_empty() {
        bail!("this vmbell has no image: it is built on x86-64 Linux only");
    }
    let mut columns: Vec<Column> = launchers
        .into_iter()
        .map(|launcher| column(launcher, args.accel, interrupted))
        .collect();
    if args.names.is_empty() && columns.iter().all(|column| column.program.is_err()) {
        eprint!("{}", none_found(&columns));
        return Ok(Exit::Skipped);
    }
    if args.names.is_empty() {
        // What the user did not name and what is not here needs no word.
        columns.retain(|column| column.program.is_ok() || !is_missing(column));
    }
    let exports = Exports::open(&args.exports)?;
    let timing = timing::here().map_err(Usage::new)?;
    let (started, begun, host, clock) = (
        SystemTime::now(),
        Instant::now(),
        host::probe(),
        clock(timing),
    );
    let stopped = turns::take(args, &mut columns, interrupted)?;
    let facts = Facts {
        clock: &clock,
        timing,
        devices: &args.device,
    };
    let vmms: Vec<Vmm> = columns.iter().map(vmm).collect();
    let backends: Vec<Backend> = vmms.iter().map(backend).collect();
    let most = columns.iter().map(|column| column.boots.len()).max();
    let finished = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
    let report = Report {
        schema_version: SCHEMA_VERSION,
        tool: Tool {
            name: "vmbell".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            git: option_env!("VMBELL_GIT").map(str::to_owned),
        },
        host,
        started: rfc3339(started),
        duration: begun.elapsed().as_secs_f64(),
        interrupted: stopped,
        timing,
        timed_out: false,
        seed: 0,
        plan: Planned {
            runs: args.runs.saturating_mul(args.batches),
            finished: finished.saturating_mul(args.batches),
            warmup: 0,
            min_time: 0.0,
            ops: Some(args.ops.into()),
        },
        backend: backends.first().cloned().unwrap_or_default(),
        backends,
        spin: "sleep".to_owned(),
        cpus: Vec::new(),
        tsc: Tsc {
            hz: clock.hz(),
            invariant: clock.is_invariant(),
        },
        results: rows::rows(&columns, facts),
        verdict: Vec::new(),
        highlights: Vec::new(),
        ratios_to: "first VMM".to_owned(),
        counting: None,
        vmms,
    };
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish(&report);
    show(&report, args, stdout_is_taken)?;
    exported?;
    Ok(exit_of(&report, report.vmms.iter().map(|vmm| vmm.status)))
}

/// The VMMs that were named; without names, all.
fn chosen(args: &VmmArgs) -> Result<Vec<Launcher>> {
    let mut all = known();
    for template in &args.vmm {
        if all.iter().any(|other| other.name() == template.name) {
            let message = format!("two VMMs are called '{}'", template.name);
            return Err(Usage::new(message).into());
        }
        all.push(Launcher::Template(template.clone()));
    }
    if args.names.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<Launcher> = Vec::new();
    for name in &args.names {
        let Some(launcher) = all.iter().find(|launcher| launcher.name() == name) else {
            let names: Vec<&str> = all.iter().map(Launcher::name).collect();
            let hint = did_you_mean(name, &names);
            return Err(Usage::new(format!(
                "no VMM is called '{name}'{hint}; there are {}, and --vmm adds others",
                names.join(", ")
            ))
            .into());
        };
        if !chosen.contains(launcher) {
            chosen.push(launcher.clone());
        }
    }
    Ok(chosen)
}

/// Finds the program of a VMM and asks it for its version.
fn column(launcher: Launcher, accel: Accel, stop: &AtomicBool) -> Column {
    let program = launcher.find();
    let version = program
        .as_deref()
        .ok()
        .and_then(|program| version(&launcher, program, stop));
    let emulates = match accel {
        Accel::Auto => launcher::no_kvm().is_some(),
        Accel::Kvm => false,
        Accel::Tcg => true,
    };
    let accel_name = match &launcher {
        Launcher::Qemu(_) if emulates => "tcg",
        _ => "kvm",
    };
    let program = program.and_then(|program| match launcher.obstacle(accel) {
        Some(obstacle) => Err(obstacle),
        None => Ok(program),
    });
    Column {
        launcher,
        program,
        version,
        accel: accel_name,
        boots: Vec::new(),
        failure: None,
    }
}

/// Whether the VMM's program is not on this host.
fn is_missing(column: &Column) -> bool {
    column.launcher.find().is_err() && !matches!(column.launcher, Launcher::Template(_))
}

fn version(launcher: &Launcher, program: &Path, stop: &AtomicBool) -> Option<String> {
    let words: [OsString; 2] = [program.into(), launcher.version()?.into()];
    let ended = process::run(&Task {
        words: &words,
        limit: VERSION_LIMIT,
        stop,
        is_complete: |_| false,
    });
    let output = ended.ok()?.output;
    let text = String::from_utf8_lossy(&output);
    let mut lines = text.lines().map(serial::cleaned);
    lines.find(|line| !line.is_empty())
}

/// `--list`.
fn list(launchers: &[Launcher], stop: &AtomicBool) -> Result<Exit> {
    let widest = launchers.iter().map(|launcher| launcher.name().len()).max();
    let widest = widest.unwrap_or_default();
    let mut text = String::new();
    for launcher in launchers {
        let found = match launcher.find() {
            Ok(program) => {
                let version = version(launcher, &program, stop);
                let version = version.map_or_else(String::new, |version| format!("  {version}"));
                format!("{}{version}", program.display())
            }
            Err(reason) => format!("not found: {reason}"),
        };
        text.push_str(&format!("{:widest$}  {found}\n", launcher.name()));
    }
    print(&text)?;
    Ok(Exit::Good)
}

/// What was looked for, and how to add a VMM.
fn none_found(columns: &[Column]) -> String {
    let mut text = "error: there is no VMM that can run here:\n".to_owned();
    for column in columns {
        if let Err(reason) = &column.program {
            text.push_str(&format!("  {}: {reason}\n", column.launcher.name()));
        }
    }
    text + "install one, or name any other by its command line: \
            --vmm NAME='COMMAND ... {image} {cmdline} ...'\n"
}

fn vmm(column: &Column) -> Vmm {
    let (status, reason, last) = match (&column.program, &column.failure) {
        (Err(reason), _) => (Status::Skipped, Some(reason.clone()), None),
        (_, Some(failure)) => (
            Status::Failed,
            Some(failure.reason.clone()),
            failure.last.clone(),
        ),
        (Ok(_), None) if column.boots.is_empty() => (
            Status::Skipped,
            Some("the command ended before its turn".to_owned()),
            None,
        ),
        (Ok(_), None) => (Status::Ok, None, None),
    };
    Vmm {
        name: column.launcher.name().to_owned(),
        status,
        reason,
        last_output: last,
        program: column
            .program
            .as_ref()
            .ok()
            .map(|path| path.display().to_string()),
        version: column.version.clone(),
        boots: u32::try_from(column.boots.len()).unwrap_or(u32::MAX),
        emulated: rows::is_emulated(column),
        guest: column.boots.first().map(|boot| boot.guest.clone()),
    }
}

fn backend(vmm: &Vmm) -> Backend {
    Backend {
        name: vmm.name.clone(),
        why: vmm
            .version
            .clone()
            .or_else(|| vmm.program.clone())
            .unwrap_or_default(),
        emulates_kernel_mode: false,
    }
}

fn show(report: &Report, args: &VmmArgs, stdout_is_taken: bool) -> Result<()> {
    if args.style == Style::None {
        return Ok(());
    }
    let look = Look {
        color: if stdout_is_taken {
            args.style.color(&io::stderr())
        } else {
            args.style.color(&io::stdout())
        },
        ratios: args.ratios,
        width: style::width(stdout_is_taken),
        ..Look::default()
    };
    let text = vmbell_report::terminal(report, look);
    if stdout_is_taken {
        eprint!("{text}");
        return Ok(());
    }
    print(&text)
}
