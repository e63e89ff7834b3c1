//! `vmbell list`: prints what can be measured.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::backends::{BackendChoice, BackendName};
use super::exit::{Exit, Usage};
use super::output::print;
use super::suites::SuiteName;
use super::suites::rings::{self, RingsArgs};
use super::suites::{net, vmms};
use vmbell_bench::HOST;
use vmbell_bench::scenario::ScanValues;
use vmbell_bench::stat::InterruptPace;
use vmbell_bench::{BenchEntry, catalogue, compare};
use vmbell_report::Group;

const EXAMPLES: &str = "\
Examples:
  vmbell list         show the rows of `vmbell bench`
  vmbell list --json  show them as JSON
  vmbell list vmms    show which VMMs are installed
  vmbell list net     show the ways and patterns of `net`, and what is missing
";

/// Show what a suite of `vmbell bench` can measure
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    /// Show the rows, variants, VMMs or paths of this suite
    #[arg(value_enum, value_name = "SUITE", default_value_t = SuiteName::Paths)]
    suite: SuiteName,

    /// Show the rows of these backends [default: every backend that runs here]
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',')]
    backend: Vec<BackendName>,

    /// Print JSON; only for the suite `paths`
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ListedRow<'a> {
    name: &'a str,
    group: &'a str,
    description: &'a str,
    reference: Option<&'a str>,
    /// The device that the host needs, by its name in `vmbell lab --device`.
    device: Option<&'a str>,
    /// Whether `vmbell bench` measures the row without `--all` or a name.
    first: bool,
    backends: Vec<&'a str>,
}

/// Prints what the suite has.
pub(super) fn run(args: &ListArgs) -> Result<Exit> {
    if args.suite != SuiteName::Paths && (args.json || !args.backend.is_empty()) {
        return Err(Usage::new("--json and --backend are for the suite `paths`").into());
    }
    match args.suite {
        SuiteName::Paths => paths(args),
        SuiteName::Rings => {
            print(&switches())?;
            Ok(Exit::Good)
        }
        SuiteName::Eoi => {
            let entries = BackendChoice::of(BackendName::Auto)?.stat(InterruptPace::Lockstep);
            print(&text(&entries))?;
            Ok(Exit::Good)
        }
        SuiteName::Vmms => vmms::list(),
        SuiteName::Net => net::list(),
    }
}

/// The switches of the suite `rings`.
fn switches() -> String {
    let command = RingsArgs::augment_args(clap::Command::new("rings"));
    let is_variant = |arg: &&clap::Arg| arg.get_help_heading() == Some(rings::VARIANTS);
    let line = |arg: &clap::Arg| {
        let name = arg.get_long().unwrap_or_default();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        format!("--{name:22}  {help}\n")
    };
    command
        .get_arguments()
        .filter(is_variant)
        .map(line)
        .collect()
}

/// Prints the names and descriptions of the entries.
fn paths(args: &ListArgs) -> Result<Exit> {
    let choices = BackendChoice::several(&args.backend)?;
    let scenarios = choices
        .iter()
        .map(|choice| choice.scenarios(&ScanValues::default()))
        .collect();
    let entries: Vec<BenchEntry> = catalogue::all(scenarios)
        .into_iter()
        .filter(|entry| entry.group() != Group::Debug)
        .collect();
    print(&if args.json {
        json(&entries)?
    } else {
        text(&entries)
    })?;
    Ok(Exit::Good)
}

/// The entries by name, each with the backends that have it.
fn by_name(entries: &[BenchEntry]) -> Vec<(&BenchEntry, Vec<&'static str>)> {
    let mut names: Vec<(&BenchEntry, Vec<&'static str>)> = Vec::new();
    for entry in entries {
        match names
            .iter_mut()
            .find(|(other, _)| other.name() == entry.name())
        {
            Some((_, backends)) => backends.push(entry.backend()),
            None => names.push((entry, vec![entry.backend()])),
        }
    }
    names
}

fn text(entries: &[BenchEntry]) -> String {
    let all = entries
        .iter()
        .map(BenchEntry::backend)
        .filter(|name| *name != HOST);
    let all: BTreeSet<&str> = all.collect();
    let width = entries
        .iter()
        .map(|entry| entry.name().len())
        .max()
        .unwrap_or_default();
    let line = |(entry, backends): (&BenchEntry, Vec<&'static str>)| {
        let only = match backends.as_slice() {
            [one] if all.len() > 1 && *one != HOST => format!(" ({one} only)"),
            _ => String::new(),
        };
        let device = entry.device().map_or_else(String::new, |device| {
            format!(" (needs the device {})", device.name)
        });
        format!(
            "{:width$}  {}{device}{only}\n",
            entry.name(),
            entry.description()
        )
    };
    by_name(entries).into_iter().map(line).collect()
}

fn json(entries: &[BenchEntry]) -> Result<String> {
    let items: Vec<ListedRow<'_>> = by_name(entries)
        .into_iter()
        .map(|(entry, backends)| ListedRow {
            name: entry.name(),
            group: entry.group().name(),
            description: entry.description(),
            reference: entry.reference(),
            device: entry.device().map(|device| device.name),
            first: compare::FIRST.contains(&entry.name()),
            backends,
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&items).context("cannot write the list as JSON")?;
    text.push('\n');
    Ok(text)
}
