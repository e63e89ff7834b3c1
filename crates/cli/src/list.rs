//! `vmbell list`: prints what can be measured.

use super::backends::Choice;
use super::bench_args::BackendName;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use super::output::print;
use vmbell_bench::{Entry, catalogue};
use vmbell_report::Group;

/// List what can be measured
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// What this backend has
    #[arg(long, value_enum, default_value_t = BackendName::Auto)]
    backend: BackendName,

    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Item<'a> {
    name: &'a str,
    group: &'a str,
    description: &'a str,
    reference: Option<&'a str>,
}

/// Prints the names and descriptions of the entries.
pub(super) fn run(args: &ListArgs) -> Result<Exit> {
    let entries: Vec<Entry> = catalogue::all(Choice::of(args.backend)?.scenarios())
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

fn text(entries: &[Entry]) -> String {
    let width = entries
        .iter()
        .map(|entry| entry.name().len())
        .max()
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| format!("{:width$}  {}\n", entry.name(), entry.description()))
        .collect()
}

fn json(entries: &[Entry]) -> Result<String> {
    let items: Vec<Item<'_>> = entries
        .iter()
        .map(|entry| Item {
            name: entry.name(),
            group: entry.group().name(),
            description: entry.description(),
            reference: entry.reference(),
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&items).context("cannot write the list as JSON")?;
    text.push('\n');
    Ok(text)
}
