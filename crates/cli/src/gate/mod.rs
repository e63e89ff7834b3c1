//! `vmbell gate`: measures VMMs in the deterministic lab, and fails if exits or instructions grew.
//!
//! `plan` is the file that the user edits, `baseline` finds the accepted reports, `check` finds mistakes before a boot,
//! and `boots` runs the labs. `vmbell_report::gate` decides when a row has grown, and has the texts of the verdict.

mod args;
mod baseline;
mod boots;
mod check;
mod plan;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

pub(super) use self::args::GateArgs;
use self::boots::Boots;
use self::plan::{GateMachine, GatePlan};
use super::compare;
use super::exit::{Exit, Usage};
use super::interrupt;
use super::output::print;
use crate::output::deliver::show;
use crate::output::style::Style;
use vmbell_bench::CommandLimit;
use vmbell_lab::progress_bar;
use vmbell_report::gate::{self, GateVerdict, merged};
use vmbell_report::units::plural;
use vmbell_report::{Export, Report, json_by_row};

/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Runs `vmbell gate`.
pub(super) fn run(args: &GateArgs) -> Result<Exit> {
    let plan = match args.init {
        true => GatePlan::described(args),
        false => GatePlan::read(args),
    };
    let plan = plan.map_err(Usage::new)?;
    let machines = plan.machines(args).map_err(Usage::new)?;
    check::check(&plan, &machines, args).map_err(Usage::new)?;
    let baselines = baselines(&plan, &machines, args)?;
    // Files that cannot be written are found before the measurement.
    let is_accepted = args.init || args.accept;
    let written = machines.iter().filter(|_| is_accepted);
    let written = written.map(|machine| Export::open(&baseline::path(&args.file, machine)));
    let written: Vec<Export> = written.collect::<Result<_, _>>()?;
    let written_plan = args.init.then(|| Export::open(&args.file)).transpose()?;
    let markdown = args.markdown.as_deref().map(append_to).transpose()?;
    if let Some(folder) = &args.keep {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let interrupted = interrupt::catch().context("cannot catch signals")?;
    let limit = CommandLimit::new(None, interrupted);
    // The first boot of a machine shows whether it can be compared with its baseline.
    let check = |machine: &GateMachine, now: &Report| match is_accepted {
        true => Ok(()),
        false => held(
            &mut GateVerdict::default(),
            args,
            &baselines,
            (machine, now),
        ),
    };
    let boots = Boots {
        check: &check,
        plan: &plan,
        machines: &machines,
        seed: args.seed,
        jobs: args.jobs.map_or_else(cpus, |jobs| jobs as usize),
        keep: args.keep.as_deref(),
        quiet: args.quiet,
        limit: &limit,
    };
    if let Some(exit) = boots.prepare()? {
        return Ok(exit);
    }
    let progress = progress_bar(!args.quiet, "Boot [{bar:30}] {pos}/{len}{left}");
    progress.enable_steady_tick(TICK);
    let reports = boots.measure(&progress);
    progress.finish_and_clear();
    let reports = match reports {
        Ok(Some(reports)) => reports,
        Ok(None) => return Ok(Exit::Interrupted),
        Err(error) if error.is::<Usage>() => return Err(error),
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(Exit::Lab);
        }
    };
    let now = reports.iter();
    let now = now.filter_map(|(machine, boots)| Some((machine.clone(), merged(boots)?)));
    let now: BTreeMap<GateMachine, Report> = now.collect();
    let verdict = verdict(args, &baselines, &reports, &now)?;
    let has_failed = match is_accepted {
        true => !verdict.failed.is_empty(),
        false => !verdict.is_within(),
    };
    if has_failed || !args.init || args.json {
        report(args, &verdict, &now, markdown)?;
    }
    if has_failed {
        return Ok(Exit::Failed);
    }
    for (file, report) in written
        .into_iter()
        .zip(machines.iter().filter_map(|machine| now.get(machine)))
    {
        file.finish(&json_by_row(report))?;
    }
    // The plan is written last, so that it never exists without its figures.
    if let Some(file) = written_plan {
        file.finish(&plan.text()?)?;
    }
    if is_accepted {
        let rows = now.values().flat_map(|report| &report.results);
        let rows = plural(rows.filter(|row| row.is_ok()).count(), "row");
        let file = args.file.display();
        let written = format!("{file} holds {rows}; `vmbell gate` measures them again\n");
        match args.json {
            true => eprint!("{written}"),
            false => print(&written)?,
        }
    }
    Ok(Exit::Good)
}

/// Compares the measured reports with the baselines.
fn verdict(
    args: &GateArgs,
    baselines: &BTreeMap<GateMachine, Report>,
    boots: &BTreeMap<GateMachine, Vec<Report>>,
    now: &BTreeMap<GateMachine, Report>,
) -> Result<GateVerdict> {
    let mut verdict = GateVerdict::default();
    for (machine, boots) in boots {
        verdict.add_failed(&machine.to_string(), boots);
    }
    for (machine, now) in now {
        match held(&mut verdict, args, baselines, (machine, now)) {
            Err(error) if args.accept => {
                eprintln!("note: {error:#}");
                verdict.hold(&machine.to_string(), None, now, |_| false)?;
            }
            held => held?,
        }
    }
    Ok(verdict)
}

/// Compares a machine's measured report with its baseline, if there is one. Fails if the baseline is of another kernel,
/// CPU, unit or VMM.
fn held(
    verdict: &mut GateVerdict,
    args: &GateArgs,
    baselines: &BTreeMap<GateMachine, Report>,
    (machine, now): (&GateMachine, &Report),
) -> Result<()> {
    let is_replaced = |vmm: &str| args.vmm.iter().any(|(name, _)| name == vmm);
    let held = verdict.hold(
        &machine.to_string(),
        baselines.get(machine),
        now,
        is_replaced,
    );
    held.map_err(|error| {
        let file = baseline::path(&args.file, machine);
        Usage::new(baseline::refusal(&file, &error.to_string(), args.accept)).into()
    })
}

/// The baselines of these machines, which must exist. With `--accept` they are optional, and the new figures are only
/// compared with them.
fn baselines(
    plan: &GatePlan,
    machines: &[GateMachine],
    args: &GateArgs,
) -> Result<BTreeMap<GateMachine, Report>> {
    let mut baselines = BTreeMap::new();
    for machine in machines.iter().filter(|_| !args.init) {
        let path = baseline::path(&args.file, machine);
        if args.accept && !path.exists() {
            continue;
        }
        let read = match args.accept {
            true => compare::read(&path),
            false => baseline::read(plan, &path, machine),
        };
        match read {
            Ok(report) => drop(baselines.insert(machine.clone(), report)),
            Err(error) if args.accept => eprintln!("note: {error:#}"),
            Err(error) => return Err(Usage::new(error).into()),
        }
    }
    Ok(baselines)
}

/// Prints the verdict in the requested form, and appends it to the file of --markdown.
fn report(
    args: &GateArgs,
    verdict: &GateVerdict,
    now: &BTreeMap<GateMachine, Report>,
    markdown: Option<File>,
) -> Result<()> {
    if args.json {
        let now = now.iter();
        let now = now.map(|(machine, report)| (machine.to_string(), report.clone()));
        print(&gate::json(verdict, &now.collect()))?;
    } else {
        show(Style::Auto, false, &gate::blocks(verdict))?;
    }
    if let Some(mut file) = markdown {
        let text = format!(
            "### vmbell gate\n\n{}",
            vmbell_report::markdown(&gate::blocks(verdict))
        );
        file.write_all(text.as_bytes())
            .context("cannot write the verdict to the file of --markdown")?;
    }
    Ok(())
}

/// Opens a file for appending.
fn append_to(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

#[cfg(test)]
#[path = "gate_test.rs"]
mod tests;
