//! `vmbell report`: exported reports, or a recording of `vmbell top`, as one page for a browser or one diagram.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::compare::shown;
use super::exit::{Exit, Usage};
use crate::args::exports::replaced;
use crate::output::text::made_visible;
use vmbell_report::{Export, Recording, Report, Run, diagram, page, parse, recorded_page};

const STDIN: &str = "-";

const EXAMPLES: &str = "\
Examples:
  vmbell bench --export-json a.json && vmbell report a.json
      make report.html, a single file that needs no network
  vmbell report old.json new.json -o both.html
      show two runs side by side, relative to the first one
  vmbell bench vmms --export-json - --style none | vmbell report - -o vmms.html
      read a run from a pipe
  vmbell top -b --record top.jsonl -n 60 && vmbell report top.jsonl
      show what the VMs of this host did in a minute
  vmbell report a.json -o - | gzip > a.html.gz
      write the page to stdout
  vmbell report a.json --export-svg paths.svg
      draw guest, KVM and VMM with the cost of each path between them
";

/// Make an HTML page from exported reports, or from a recording of `vmbell top`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportArgs {
    /// Show these files of --export-json side by side, or one file of `vmbell top --record`; - is stdin
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Write the page to this file; - is stdout
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,

    /// Instead of the page, draw the paths of one report of `vmbell bench` to this SVG file; - is stdout
    ///
    /// Each path between guest, KVM and VMM is an arrow with its median: instructions in a report of
    /// `vmbell lab --deterministic`, otherwise a time. Paths that were not measured are left out. Reports of other
    /// suites and times of an emulated CPU are refused.
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    export_svg: Option<PathBuf>,
}

/// Reads the reports and writes the page or the diagram.
pub(super) fn run(args: &ReportArgs) -> Result<Exit> {
    if args
        .runs
        .iter()
        .filter(|path| *path == Path::new(STDIN))
        .count()
        > 1
    {
        return Err(Usage::new("only one report can come from stdin").into());
    }
    let (output, what) = match &args.export_svg {
        Some(output) => (output, "diagram"),
        None => (&args.output, "page"),
    };
    if let Some(path) = replaced(&[output.as_path()], &args.runs) {
        let path = shown(path);
        let text = format!("the {what} would replace the report '{path}': give another file");
        return Err(Usage::new(text).into());
    }
    let texts: Vec<(String, Vec<u8>)> = args
        .runs
        .iter()
        .map(|path| load(path))
        .collect::<Result<_>>()?;
    let text = match &texts[..] {
        texts if args.export_svg.is_some() => drawn(texts)?,
        [(name, bytes)] if is_recording(bytes) => recorded(name, bytes)?,
        _ => page(&runs(&texts)?),
    };
    let export = Export::open(output)?;
    let is_stdout = export.is_stdout();
    export.finish(&text)?;
    if !is_stdout {
        eprintln!("wrote {} ({} kB)", shown(output), text.len().div_ceil(1000));
    }
    Ok(Exit::Good)
}

/// A file's name and what is in it.
fn load(path: &Path) -> Result<(String, Vec<u8>)> {
    let (name, bytes) = if path == Path::new(STDIN) {
        let mut bytes = Vec::new();
        let read = io::stdin().read_to_end(&mut bytes);
        ("stdin".to_owned(), read.map(|_| bytes))
    } else {
        (shown(path), fs::read(path))
    };
    let bytes = bytes.with_context(|| format!("cannot read '{name}'"))?;
    Ok((name, bytes))
}

fn is_recording(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(Recording::is_one)
}

/// The page of a recording.
fn recorded(name: &str, bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
    let recording = Recording::parse(text)
        .map_err(made_visible)
        .with_context(|| format!("cannot show the recording '{name}'"))?;
    for warning in &recording.warnings {
        eprintln!("warning: '{name}': {warning}");
    }
    Ok(recorded_page(&recording, name))
}

/// The diagram of the only report.
fn drawn(texts: &[(String, Vec<u8>)]) -> Result<String> {
    let [(name, bytes)] = texts else {
        return Err(Usage::new("--export-svg draws one report").into());
    };
    if is_recording(bytes) {
        let text = format!(
            "'{name}' is a recording of vmbell top: --export-svg draws reports of vmbell bench"
        );
        return Err(Usage::new(text).into());
    }
    let picture = read(bytes).and_then(|report| Ok(diagram(&report)?));
    picture.with_context(|| format!("cannot draw the report '{name}'"))
}

fn runs(texts: &[(String, Vec<u8>)]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for (name, bytes) in texts {
        if is_recording(bytes) {
            let text = format!("'{name}' is a recording of vmbell top: show it alone");
            return Err(Usage::new(text).into());
        }
        let report = read(bytes).with_context(|| format!("cannot show the report '{name}'"))?;
        let name = name.clone();
        runs.push(Run { name, report });
    }
    Ok(runs)
}

fn read(bytes: &[u8]) -> Result<Report> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8")?;
    parse(text).map_err(made_visible)
}
