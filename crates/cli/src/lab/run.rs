//! `vmbell lab -- PROGRAM`: runs a program of this host in L1.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Command};
use tempfile::{NamedTempFile, TempDir};

use super::bisect::{Bisection, Point};
use super::carried::{Carried, copied};
use super::device::plug_in;
use super::environment::{environment_in_l1, environment_of_host, variable};
use super::exits;
use super::exported::Exported;
use super::inner::Inner;
use super::lacks;
use super::machine::{Chosen, MachineArguments, PROGRAM, PlainMachine, announce, summarize};
use super::needs::Needs;
use super::parts::{CHANGES, LabParts, PlainParts, RunKernel, boards};
use crate::compare;
use crate::exit::Usage;
use crate::output::deliver::show_below;
use crate::output::style::Style;
use crate::suites::BenchSuite;
use vmbell_bench::host::{DEPTH_VARIABLE, DEPTH_VMM_VARIABLE};
use vmbell_bench::marks;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::{EmulatorKind, LabBoard};
use vmbell_lab::boot::Settings;
use vmbell_lab::job::ProgramEnding;
use vmbell_lab::{Lab, LabFailure, LabTask};
use vmbell_report::compare::{at_depths, side_by_side};
use vmbell_report::{EXPORTERS, Exporter, Report, Timing, json};

/// The export option of the report that is compared.
const JSON: &str = "export-json";
/// The program, its input and its output.
#[derive(Debug, Args)]
#[command(next_help_heading = PROGRAM)]
pub(super) struct ProgramArguments {
    /// Copy a file or folder of this host into L1, to the same path or to PATH
    #[arg(long, value_name = "HOST[:PATH]")]
    with: Vec<PathBuf>,
    /// Copy the files that the program leaves in /out to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Set a variable for the program
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Connect standard input
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Run this program with these arguments; `vmbell` stands for this program
    #[arg(last = true, required = true, value_name = "PROGRAM", help_heading = None::<&str>)]
    words: Vec<OsString>,
}

/// The options of `vmbell lab`.
#[derive(Debug, Args)]
pub(super) struct PlainArguments {
    #[command(flatten)]
    machine: PlainMachine,
    #[command(flatten)]
    program: ProgramArguments,
    #[command(flatten)]
    parts: PlainParts,
}

/// The options of `vmbell lab kernel`.
#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    machine: MachineArguments,
    #[command(flatten)]
    program: ProgramArguments,
    /// Pass no variable of this environment; this is the default if PROGRAM is vmbell
    #[arg(long, help_heading = PROGRAM)]
    clear_env: bool,
    /// Run the program in its own cgroup, as a service manager does, so that the kernel counts its memory
    #[arg(long, help_heading = PROGRAM)]
    cgroup: bool,
    /// Find the first of Debian's kernels between two --kernel, older first, at which the row that `vmbell bench`
    /// measures has changed by at least half of the difference between the two. Each step downloads a kernel and keeps
    /// it
    #[arg(long, help_heading = CHANGES)]
    bisect: bool,
    #[command(flatten)]
    parts: LabParts,
}

impl From<PlainArguments> for RunArguments {
    fn from(plain: PlainArguments) -> Self {
        Self {
            parts: plain.parts.into(),
            machine: plain.machine.into(),
            program: plain.program,
            clear_env: false,
            cgroup: false,
            bisect: false,
        }
    }
}

/// What runs in L1.
#[derive(Debug)]
struct LabProgram {
    /// vmbell's own command line, if the program is vmbell.
    inner: Option<Inner>,
    needs: Needs,
    /// Files of this host that the program reads, as absolute paths.
    reads: Vec<PathBuf>,
    exports: Vec<Exported>,
}

/// Where a program runs: a kernel and a depth.
#[derive(Clone, Copy, Debug)]
struct KernelAtDepth<'c> {
    choice: &'c RunKernel,
    /// The user's depth; `None` is 1.
    depth: Option<u32>,
}

/// Runs the program; the command's exit status is the program's. With several kernels or depths it runs in each place
/// in turn, the exit status is the first that is not 0, and the measured reports are compared. `parser` parses the
/// arguments of this program.
pub(super) fn run(
    arch: Option<&str>,
    arguments: &RunArguments,
    parser: &Command,
) -> anyhow::Result<ExitCode> {
    let (choices, depths) = (arguments.parts.choices()?, arguments.machine.depths()?);
    let runs_vmms = check(arch, arguments, parser)?;
    let board = boards(arch, arguments.machine.nests())?.1;
    if arguments.bisect && arguments.parts.has_several_cpus() {
        bail!("--bisect is on one CPU: give one --cpu");
    }
    arguments.parts.check(board, &choices, runs_vmms)?;
    if arguments.bisect {
        return bisect(arch, arguments, parser, &choices, &depths);
    }
    let places = choices
        .iter()
        .flat_map(|choice| depths.iter().map(move |depth| (choice, *depth)))
        .map(|(choice, depth)| KernelAtDepth { choice, depth });
    // Each place is checked before the first boot.
    let runs = places.map(|place| PlannedRun::new(arch, arguments, parser, place));
    let mut runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    if runs.len() == 1
        && let Some(run) = runs.pop()
    {
        return Ok(ExitCode::from(run_in(arguments, run, None)?));
    }
    if arguments.parts.has_kvm_parameters() || choices.iter().any(RunKernel::builds_a_module) {
        // A kernel's modules say which parameters they have, and a patch may not apply to every kernel.
        for run in &runs {
            let (settings, choice) = (&run.settings, run.place.choice);
            arguments
                .parts
                .prepare(run.host, &run.board, settings, choice)?;
        }
    }
    let folder =
        TempDir::with_prefix("vmbell-kernels-").context("cannot make a temporary folder")?;
    let (mut first, mut reports) = (0, Vec::new());
    for (index, run) in runs.into_iter().enumerate() {
        let report = folder.path().join(format!("{index}.json"));
        let place = run.place;
        let status = run_in(arguments, run, Some(&report))?;
        if first == 0 {
            first = status;
        }
        if report.exists() {
            reports.push((place, compare::read(&report)?));
        }
    }
    if depths.len() > 1 {
        for choice in &choices {
            let of = choices.len() > 1;
            show_depths(
                of.then(|| choice.to_string()),
                &reports_of(&reports, |place| {
                    let is_here = std::ptr::eq(place.choice, choice);
                    is_here.then(|| format!("L{}", place.depth.unwrap_or(1)))
                }),
            )?;
        }
    }
    if choices.len() > 1 {
        for depth in &depths {
            show_kernels(&reports_of(&reports, |place| {
                let name = || match depth {
                    Some(depth) => format!("{}, L{depth}", place.choice),
                    None => place.choice.to_string(),
                };
                (place.depth == *depth).then(name)
            }))?;
        }
    }
    Ok(ExitCode::from(first))
}

/// Fails if the program is vmbell with wrong arguments, as far as this host can tell. Another architecture has other
/// rows. Returns whether it runs VMMs.
fn check(arch: Option<&str>, arguments: &RunArguments, parser: &Command) -> anyhow::Result<bool> {
    let inner = Inner::of(&arguments.program.words, parser)?;
    let (host, board) = boards(arch, arguments.machine.nests())?;
    let suite = inner.as_ref().and_then(|inner| inner.suite.as_ref());
    if let Some(suite) = suite.filter(|_| board.arch == host) {
        suite.check()?;
    }
    Ok(inner.is_some_and(|inner| inner.runs_vmms()))
}

/// The reports of the places for which `name` returns a name, each with that name.
fn reports_of(
    reports: &[(KernelAtDepth<'_>, Report)],
    name: impl Fn(&KernelAtDepth<'_>) -> Option<String>,
) -> Vec<(String, Report)> {
    let named =
        |(place, report): &(KernelAtDepth<'_>, Report)| Some((name(place)?, report.clone()));
    reports.iter().filter_map(named).collect()
}

/// Compares the reports of several kernels.
fn show_kernels(reports: &[(String, Report)]) -> anyhow::Result<()> {
    if reports.len() < 2 {
        return Ok(());
    }
    show_below(Style::Auto, false, &side_by_side(reports)?)
}

/// Compares the reports of several depths, for one kernel if there are several.
fn show_depths(of: Option<String>, reports: &[(String, Report)]) -> anyhow::Result<()> {
    if reports.len() > 1 {
        show_below(Style::Auto, false, &at_depths(of.as_deref(), reports))?;
    }
    Ok(())
}

/// Runs the program on the two kernels and on kernels between them, and shows at which one its row changed.
fn bisect(
    arch: Option<&str>,
    arguments: &RunArguments,
    parser: &Command,
    choices: &[RunKernel],
    depths: &[Option<u32>],
) -> anyhow::Result<ExitCode> {
    let [depth] = *depths else {
        bail!("--bisect is at one depth: give one --depth");
    };
    let [old, new] = choices else {
        bail!("--bisect is between two kernels: name the older and the newer one with --kernel");
    };
    if !old.is_debians() || !new.is_debians() {
        bail!("--bisect is between kernels of Debian: name them as --kernel debian:VERSION");
    }
    let inner = Inner::of(&arguments.program.words, parser)?;
    let chosen = arguments
        .machine
        .choose(inner.as_ref(), depth.unwrap_or(1))?;
    if !chosen.is_deterministic() {
        return Err(Usage::new("--bisect compares instructions: add --deterministic").into());
    }
    let (host, board) = boards(arch, arguments.machine.nests())?;
    let folder =
        TempDir::with_prefix("vmbell-kernels-").context("cannot make a temporary folder")?;
    let path = folder.path().join("report.json");
    let measure = |choice: &RunKernel| {
        let place = KernelAtDepth { choice, depth };
        let run = PlannedRun::new(arch, arguments, parser, place)?;
        let status = run_in(arguments, run, Some(&path))?;
        if status != 0 || !path.exists() {
            bail!("{choice}: nothing was measured (exit status {status})");
        }
        let point = Point::of(&compare::read(&path)?).with_context(|| choice.to_string())?;
        fs::remove_file(&path).context("cannot remove a report")?;
        Ok(point)
    };
    let ends = [measure(old)?, measure(new)?];
    let mut bisection = Bisection::new(ends)?;
    let between = arguments
        .parts
        .between(host, &board, bisection.releases())?;
    bisection.run(&between, measure)?;
    show_below(Style::Auto, false, &bisection.blocks())?;
    Ok(ExitCode::SUCCESS)
}

/// A run in one place, with everything about it that can be checked before a boot.
#[derive(Debug)]
struct PlannedRun<'c> {
    place: KernelAtDepth<'c>,
    host: Arch,
    board: LabBoard,
    /// vmbell's own command line, if the program is vmbell.
    inner: Option<Inner>,
    needs: Needs,
    chosen: Chosen,
    settings: Settings,
}

impl<'c> PlannedRun<'c> {
    /// Plans a run in this place. Fails if its machine does not have what is asked for.
    fn new(
        arch: Option<&str>,
        arguments: &RunArguments,
        parser: &Command,
        place: KernelAtDepth<'c>,
    ) -> anyhow::Result<Self> {
        let inner = Inner::of(&arguments.program.words, parser)?;
        let (host, board) = boards(arch, arguments.machine.nests())?;
        let board = place.choice.board(board)?;
        let (machine, depth) = (&arguments.machine, place.depth.unwrap_or(1));
        let chosen = machine.choose(inner.as_ref(), depth)?;
        let needs = match &inner {
            Some(inner) => Needs::of(inner, &board, chosen.timing())?,
            None => Needs::default(),
        };
        let mut settings = machine.settings(&board, depth, &chosen, needs.time_limit)?;
        if arguments.program.stdin && matches!(board.emulator, EmulatorKind::Bochs(_)) {
            bail!("--stdin needs virtio-serial, and Bochs has no virtio: use --cpu amd");
        }
        plug_in(&board, &mut settings.devices, &needs.devices).map_err(anyhow::Error::msg)?;
        if let (2.., Some(plugged)) = (settings.depth, settings.devices.first()) {
            let (depth, device) = (settings.depth, plugged.device.name);
            bail!("{device} is a device of L1, and the program runs in L{depth}: use --depth 1");
        }
        settings.memory = settings.memory.max(needs.memory);
        board.emulator.check_memory(settings.memory)?;
        // With marks, which need a port, exits are counted for each row.
        let can_mark = settings.exits && board.arch == Arch::X86_64;
        let marked = inner
            .as_ref()
            .filter(|inner| can_mark && matches!(inner.suite, Some(BenchSuite::Paths(_))));
        if let Some(inner) = marked {
            if inner.has("sort") {
                bail!("--exits has the rows in their own order: leave out --sort");
            }
            settings.marks = Some(marks::PORT);
        }
        Ok(Self {
            place,
            host,
            board,
            inner,
            needs,
            chosen,
            settings,
        })
    }
}

/// Runs the program once, as planned, and returns its exit status. If it measures, its report goes to `report`.
fn run_in(
    arguments: &RunArguments,
    run: PlannedRun<'_>,
    report: Option<&Path>,
) -> anyhow::Result<u8> {
    let PlannedRun {
        place: KernelAtDepth { choice, depth },
        host,
        board,
        inner,
        needs,
        chosen,
        settings,
    } = run;
    let machine = &arguments.machine;
    let reads = inner.as_ref().map(Inner::files).unwrap_or_default();
    // Exports are opened before the boot, so that a wrong path is found at once.
    let mut exports = inner.as_ref().map(Inner::exports).unwrap_or_default();
    if report.is_some() && !exports.is_empty() {
        bail!("--export-... is for a run with one --kernel, one --cpu and one --depth");
    }
    if let (Some(report), Some(inner)) = (report, &inner) {
        let json = EXPORTERS.into_iter().find(|e| e.option == JSON);
        let json = json.filter(|json| inner.has_export(*json));
        exports.extend(json.map(|json| (json, report.to_path_buf())));
    }
    let stdout_is_taken = exports.iter().any(|(_, path)| path == Path::new("-"));
    // The report says which rows there are, and the number of operations of each.
    let own = settings.marks.map(|_| NamedTempFile::new()).transpose();
    let own = own.context("cannot make a temporary file")?;
    let of_rows = own.as_ref().map(|own| json_of(&mut exports, own.path()));
    let of_rows = of_rows.transpose()?;
    let exports = Exported::open(&exports, &reads)?;
    if let Some(folder) = &arguments.program.out {
        // The folder for the program's files is also opened before the boot.
        let file = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
        file.with_context(|| format!("cannot write into the folder {} (--out)", folder.display()))?;
    }
    let program = LabProgram {
        inner,
        needs,
        reads,
        exports,
    };
    let mut carried = Carried::default();
    for pair in &arguments.program.with {
        carried.files.push(copied(pair)?);
    }
    if let Some(BenchSuite::Vmms(args)) = program
        .inner
        .as_ref()
        .and_then(|inner| inner.suite.as_ref())
    {
        // The program may be among the user's copied files.
        carried.programs(args.programs(), !arguments.program.with.is_empty())?;
    }
    if let Some(sweep) = program
        .inner
        .as_ref()
        .and_then(|inner| inner.sweep.as_ref())
    {
        carried.programs(sweep.programs(), !arguments.program.with.is_empty())?;
        for file in sweep.descriptions() {
            carried.files.push(copied(file)?);
        }
    }
    let lab = arguments.parts.open(host, board, &settings, choice)?;
    if program.needs.vmms {
        carried.vmms(&lab, host, &arguments.parts)?;
    }
    if program.needs.kernel {
        carried.kernel(&lab);
    }
    if program.needs.linux {
        carried.linux(&lab, host, &arguments.parts)?;
    }
    let mut task = task(arguments, &program, &lab, (&carried, chosen.timing()))?;
    if let Some(depth) = depth {
        let pair = (DEPTH_VARIABLE.into(), depth.to_string().into());
        task.environment.push(pair);
        if depth > 1 {
            let pair = (DEPTH_VMM_VARIABLE.into(), settings.vmm.name().into());
            task.environment.push(pair);
        }
    }
    if settings.marks.is_some() {
        task.environment.push((marks::VARIABLE.into(), "1".into()));
    }
    announce(&lab, &settings, chosen.why.as_deref());
    if is_doctest(Path::new(&task.program)) {
        lab.progress.say(
            "this is a doctest, and before edition 2024 each boots by itself: \
             `cargo test --lib --bins --tests` leaves them out",
        );
    }
    let outcome = lab.run(&task, &settings, machine.retries(depth.unwrap_or(1)));
    // A boot that crashes before the program starts is repeated.
    if let Err(error) = &outcome
        && let LabFailure::Crash(1) | LabFailure::Silent(1) = error.kind()
        && !task.stdin
    {
        lab.progress
            .say("the program had started, so it is not run again; `vmbell lab kernel --retries N` allows that");
    }
    let mut outcome = outcome?;
    if program.inner.is_none()
        && let ProgramEnding::Exited(status) = outcome.ending
        && let Some(advice) = lacks::advice(status, &task, lab.board.arch.triplet)
    {
        lab.progress.say(advice);
    }
    summarize(&outcome, lab.board.arch, lab.progress);
    let status = outcome.status(&settings);
    let code = status.as_ref().map_or(u8::MAX, |status| *status);
    Exported::finish(program.exports, &mut outcome, code)?;
    if let (Some(path), true) = (of_rows, code == 0) {
        let mut report = compare::read(&path)?;
        let exits = exits::of_rows(&mut report, &outcome.between_marks)?;
        let written = fs::write(&path, json(&report));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        show_below(Style::Auto, stdout_is_taken, &exits)?;
    }
    if let (Some(files), Some(folder)) = (outcome.files.take(), &arguments.program.out) {
        files.unpack(folder)?;
    }
    let status = status?;
    let lost = outcome
        .unwritten
        .filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
    match lost {
        Some(error) if status == 0 => Err(error).context(LOST),
        Some(error) => {
            lab.progress.say(format_args!("{LOST}: {error}"));
            Ok(status)
        }
        None => Ok(status),
    }
}

/// The error for output that could not be written.
const LOST: &str = "a part of what the program wrote is lost: cannot write it";

/// The file to which the report is exported as JSON: the user's, otherwise `own`.
fn json_of(exports: &mut Vec<(Exporter, PathBuf)>, own: &Path) -> anyhow::Result<PathBuf> {
    let json = exports.iter().find(|(json, _)| json.option == JSON);
    if let Some((_, path)) = json {
        if path == Path::new("-") {
            bail!("--exits reads the report: give --{JSON} a file in place of `-`");
        }
        return Ok(path.clone());
    }
    let json = EXPORTERS.into_iter().find(|json| json.option == JSON);
    exports.extend(json.map(|json| (json, own.to_path_buf())));
    Ok(own.to_path_buf())
}

/// Whether this is the program that rustdoc makes from a doctest, or from several merged ones.
fn is_doctest(program: &Path) -> bool {
    let folder = program.parent().and_then(Path::file_name);
    program.file_name() == Some("rust_out".as_ref())
        && folder.is_some_and(|name| name.to_string_lossy().starts_with("rustdoctest"))
}

fn task(
    arguments: &RunArguments,
    program: &LabProgram,
    lab: &Lab,
    (carried, timing): (&Carried, Timing),
) -> anyhow::Result<LabTask> {
    let needs = &program.needs;
    let own = [needs.environment.as_slice(), &arguments.program.env].concat();
    let (name, words, environment) = match (&program.inner, arguments.program.words.as_slice()) {
        (Some(inner), _) => {
            let in_l1 = program.exports.iter().map(Exported::in_l1);
            let replaced: Vec<_> = needs.replaced.iter().cloned().chain(in_l1).collect();
            let words = inner.words(&needs.defaults, &replaced);
            // Variables of this host would move the program's stack.
            (lab.init.clone().into(), words, Vec::new())
        }
        (None, [name, words @ ..]) => {
            let environment = match arguments.clear_env {
                true => Vec::new(),
                false => environment_of_host(),
            };
            (name.clone(), words.to_vec(), environment)
        }
        (None, []) => bail!("no program"),
    };
    let mut modules: Vec<String> = needs.modules.iter().map(|name| (*name).into()).collect();
    modules.extend_from_slice(arguments.machine.modules());
    let same = |path: &PathBuf| (path.clone(), path.clone());
    let reads = program.reads.iter().map(same);
    Ok(LabTask {
        program: name,
        arguments: words,
        environment: environment_in_l1(environment, &own, timing),
        directory: std::env::current_dir().context("cannot tell the working directory")?,
        with: carried.files.iter().cloned().chain(reads).collect(),
        scripts: carried.scripts.clone(),
        modules,
        out: arguments.program.out.is_some() || !program.exports.is_empty(),
        stdin: arguments.program.stdin,
        cgroup: arguments.cgroup,
    })
}
