//! `vmbell bench`: measures entries, exports the report and shows it.

pub(crate) mod args;
mod interleave;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Command, ValueEnum};

use self::args::{PathsArgs, Sort};
use super::measured::{BegunBench, exit};
use super::name::SuiteName;
use super::supervise::supervise;
use crate::args::exports::{Exports, replaced};
use crate::args::values::value;
use crate::backends::{BackendChoice, BackendName, all_scenarios};
use crate::compare::{self, BenchComparison};
use crate::exit::{Exit, Usage};
use crate::output::deliver::deliver;
use crate::output::print;
use crate::output::progress::BenchProgress;
use crate::output::style::Style;
use vmbell_bench::HOST;
use vmbell_bench::marks::Marks;
use vmbell_bench::scenario::ScanValues;
use vmbell_bench::{
    BenchEntry, BenchPlan, SelectError, SubjectOptions, WantedEntries, catalogue, picks, select,
    set_reference, similar,
};
use vmbell_report::compare::{CompareOptions, Pairing, RowKey, can_show_a_change};
use vmbell_report::{Backend, Block, Cell, Column, Group, Look, Report, Table, Timing};

/// How long the default selection of rows is measured.
const FIRST: Duration = Duration::from_secs(12);

/// Measures, exports and shows.
pub(crate) fn run(args: PathsArgs, program: &Command) -> Result<Exit> {
    if let Some(other) = &args.before.interleave {
        return interleave::run(&args, other, program);
    }
    let baseline = baseline(&args)?;
    let choices = BackendChoice::several(&args.backend)?;
    let scan = scan(&args);
    let scenarios = choices.iter().map(|choice| choice.scenarios(&scan));
    let entries = entries(&args, scenarios.collect())?;
    let cpus = args.measure.cpus()?;
    let exports = Exports::open(&args.measure.exports)?;
    let begun = BegunBench::now()?;
    let timing = begun.timing;
    check_fail_above(&args, timing)?;
    let plan = plan(&args, timing);
    let options = SubjectOptions {
        marks: Marks::open().context("cannot mark exits for the lab")?,
        cpus,
        spin: args.spin.into(),
        clock: begun.clock,
        timing,
        limit: args
            .measure
            .limit()?
            .with_run_timeout(run_timeout(&args, &plan, timing)),
    };
    let look = Look {
        bars: true,
        ..Look::default()
    };
    let delivery = args.measure.delivery(&begun, look)?;
    let progress = BenchProgress::of(args.measure.progress(), &plan);
    let record = supervise(entries, options.clone(), plan, progress)?;
    let backends: Vec<Backend> = choices.iter().map(BackendChoice::report).collect();
    let kind = vmbell_bench::paths(&record, &backends, &plan, &options);
    let mut report = begun.report(&record, (&options, &plan), backends, kind, &[]);
    if args.sort == Sort::Median {
        sort_by_median(&mut report);
    }
    let stdout_is_taken = exports.use_stdout();
    deliver(&report, exports, delivery, next(&report, &args))?;
    Ok(match (exit(&report), baseline.as_slice()) {
        (exit, []) => exit,
        (Exit::Good, baseline) => compare_with(baseline, report, &args, stdout_is_taken)?,
        (exit, baseline) => {
            compare_with(baseline, report, &args, stdout_is_taken)?;
            exit
        }
    })
}

/// The reports of `--baseline`, read before the measurement.
fn baseline(args: &PathsArgs) -> Result<Vec<Report>> {
    if args.before.fail_above.is_some() && args.before.baseline.is_empty() {
        return Err(Usage::new("--fail-above needs --baseline or --interleave").into());
    }
    if let Some(path) = replaced(&args.measure.exports.paths(), &args.before.baseline) {
        let path = compare::shown(path);
        let text = format!("the export would replace the baseline '{path}': give it another name");
        return Err(Usage::new(text).into());
    }
    let read = |path: &PathBuf| compare::read(path).map_err(|error| Usage::new(error).into());
    args.before.baseline.iter().map(read).collect()
}

/// Fails if one report of this timing and the baseline's reports could show no change.
fn check_fail_above(args: &PathsArgs, timing: Timing) -> Result<()> {
    let reports = args.before.baseline.len();
    if args.before.fail_above.is_some()
        && timing != Timing::Instructions
        && !can_show_a_change(reports, 1, Pairing::Apart)
    {
        let enough = (reports..).find(|more| can_show_a_change(*more, 1, Pairing::Apart));
        let text = format!(
            "not enough data for --fail-above: times need --interleave, or at least {} reports of --baseline",
            enough.unwrap_or(usize::MAX)
        );
        return Err(Usage::new(text).into());
    }
    Ok(())
}

/// Compares what was measured with the reports of before.
fn compare_with(
    baseline: &[Report],
    report: Report,
    args: &PathsArgs,
    stdout_is_taken: bool,
) -> Result<Exit> {
    let options = CompareOptions {
        seed: report.seed,
        ..CompareOptions::default()
    };
    if args.measure.style != Style::None {
        let text = "\nbefore and now\n";
        if stdout_is_taken {
            eprint!("{text}");
        } else {
            print(text)?;
        }
    }
    let is_wanted = |key: &RowKey| !args.before.allow_missing && is_wanted(args, key);
    let now = [report];
    let comparison = BenchComparison {
        style: args.measure.style,
        verbose: args.measure.verbose,
        fail_above: args.before.fail_above,
        stdout_is_taken,
    };
    comparison.run(baseline, &now, &options, is_wanted)
}

/// Whether the arguments ask for this row of a baseline, which may have more rows and backends.
fn is_wanted(args: &PathsArgs, row: &RowKey) -> bool {
    let backends = &args.backend;
    let is_of_backend = backends.is_empty()
        || row.backend == HOST
        || backends.iter().any(|backend| {
            *backend == BackendName::Auto || value(backend).get_name() == row.backend
        });
    is_of_backend
        && match wanted(args) {
            WantedEntries::First => vmbell_bench::compare::FIRST.contains(&row.command.as_str()),
            WantedEntries::All => row.group != Group::Debug,
            WantedEntries::Named { patterns, .. } => {
                let mut patterns = patterns.iter();
                patterns.any(|pattern| picks(pattern, &row.command))
            }
        }
}

/// The plan for these arguments. If the user gave a number of runs, no time budget reduces it.
fn plan(args: &PathsArgs, timing: Timing) -> BenchPlan {
    let default = match timing {
        Timing::Native => BenchPlan::default(),
        Timing::Emulated | Timing::Instructions => BenchPlan::counted(),
    };
    let ops = match args.min_time {
        Some(_) => None,
        None => args.ops.or(default.ops),
    };
    BenchPlan {
        runs: args.runs.unwrap_or(default.runs),
        warmup: args.warmup,
        min_time: match ops {
            Some(_) => Duration::ZERO,
            None => args.min_time.unwrap_or(default.min_time),
        },
        ops,
        most_time: default.most_time.filter(|_| args.ops.is_none()),
        budget: match (args.runs, wanted(args)) {
            (Some(_), _) => None,
            (None, WantedEntries::First) => default.budget.map(|budget| budget.min(FIRST)),
            (None, _) => default.budget,
        },
        seed: args.measure.seed(timing),
        ..default
    }
}

/// The time limit of one run, if any. The default is much longer than any run takes on an idle host.
fn run_timeout(args: &PathsArgs, plan: &BenchPlan, timing: Timing) -> Option<Duration> {
    let default = match timing {
        Timing::Native => Duration::from_secs(10).max(plan.min_time * 20),
        Timing::Emulated | Timing::Instructions => Duration::from_secs(60),
    };
    let timeout = args.run_timeout.unwrap_or(default);
    (timeout > Duration::ZERO).then_some(timeout)
}

fn wanted(args: &PathsArgs) -> WantedEntries<'_> {
    match args.names.as_slice() {
        [] if args.all => WantedEntries::All,
        [] => WantedEntries::First,
        patterns => WantedEntries::Named {
            patterns,
            companions: !args.only,
        },
    }
}

fn scan(args: &PathsArgs) -> ScanValues {
    ScanValues {
        doorbells: args.doorbells.clone(),
        vcpus: args.vcpus.clone(),
    }
}

/// Fails if the arguments name a row that no host of this architecture has, or a baseline that cannot be read.
pub(crate) fn check(args: &PathsArgs) -> Result<()> {
    baseline(args)?;
    entries(args, vec![all_scenarios(&scan(args))]).map(drop)
}

/// The entries to measure, from the scenarios of each backend and this host's floors.
fn entries(args: &PathsArgs, scenarios: Vec<Vec<BenchEntry>>) -> Result<Vec<BenchEntry>> {
    let all = match &args.reference {
        Some(name) => set_reference(catalogue::all(scenarios), name),
        None => Ok(catalogue::all(scenarios)),
    };
    all.and_then(|all| select(all, wanted(args)))
        .map_err(|error| Usage::new(format!("{error} ({})", hint(&error, args))).into())
}

/// A hint about a name that selects nothing.
fn hint(error: &SelectError, args: &PathsArgs) -> String {
    let is_suite = |name: &&String| SuiteName::from_str(name, false).is_ok();
    if let Some(suite) = args.names.iter().find(is_suite) {
        return format!("for the suite, write it first: `vmbell bench {suite} [OPTIONS]`");
    }
    let suites = SuiteName::value_variants().iter();
    let suites: Vec<String> = suites
        .map(|suite| value(suite).get_name().to_owned())
        .collect();
    let suites: Vec<&str> = suites.iter().map(String::as_str).collect();
    let first = args.names.first();
    match (error, first.and_then(|first| similar(first, &suites))) {
        (SelectError::Unknown { hint, .. }, Some(suite)) if hint.is_empty() => {
            format!("did you mean the suite '{suite}'?")
        }
        _ => "see `vmbell list`".to_owned(),
    }
}

/// Sorts the rows by their medians; rows without numbers come last.
fn sort_by_median(report: &mut Report) {
    let key = |median: Option<f64>| median.unwrap_or(f64::INFINITY);
    report
        .results
        .sort_by(|a, b| key(a.median()).total_cmp(&key(b.median())));
}

/// What to run next, after the default selection.
fn next(report: &Report, args: &PathsArgs) -> Vec<Block> {
    if wanted(args) != WantedEntries::First || report.ended_early() {
        return Vec::new();
    }
    let is_real = |backend: &Backend| backend.name == "kvm" && !backend.emulates_kernel_mode;
    let has_kvm = report.backends.iter().any(is_real);
    let commands = [
        (
            "vmbell bench --all -v",
            "every row, with floors and intervals",
        ),
        match has_kvm {
            true => ("vmbell probe", "what slows these paths on this host"),
            false => ("vmbell lab -- vmbell bench", "exits on real KVM, in QEMU"),
        },
    ];
    let mut table = Table {
        title: Some("next".to_owned()),
        ..Table::new("", commands.map(|(command, _)| command))
    };
    let what = commands.map(|(_, what)| Some(Cell::from(what)));
    table.add(Column::words(""), what);
    vec![Block::Table(table)]
}
