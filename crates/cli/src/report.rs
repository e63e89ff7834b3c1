//! `vmbell report`: exported reports, or a recording of `vmbell top`, as one page for a browser.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::compare::shown;
use super::exit::{Exit, Usage};
use crate::args::exports::replaced;
use crate::output::text::made_visible;
use vmbell_report::{Export, Recording, Report, Run, page, parse, recorded_page};

const STDIN: &str = "-";

const EXAMPLES: &str = "\
Examples:
  vmbell bench --export-json a.json && vmbell report a.json
                                   make report.html, which needs no other file and no network
  vmbell report old.json new.json -o both.html
                                   show two runs side by side, relative to the first one
  vmbell bench vmms --export-json - --style none | vmbell report - -o vmms.html
                                   read a run from a pipe
  vmbell top -b --record top.jsonl -n 60 && vmbell report top.jsonl
                                   show what the VMs of this host did in a minute
  vmbell report a.json -o - | gzip > a.html.gz
                                   write the page to stdout
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
}

/// Reads the reports and writes the page.
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
    if let Some(path) = replaced(&[args.output.as_path()], &args.runs) {
        let path = shown(path);
        let text = format!("the page would replace the report '{path}': give another file with -o");
        return Err(Usage::new(text).into());
    }
    let texts: Vec<(String, Vec<u8>)> = args
        .runs
        .iter()
        .map(|path| load(path))
        .collect::<Result<_>>()?;
    let text = match &texts[..] {
        [(name, bytes)] if is_recording(bytes) => recorded(name, bytes)?,
        _ => page(&runs(&texts)?),
    };
    let export = Export::open(&args.output)?;
    let is_stdout = export.is_stdout();
    export.finish(&text)?;
    if !is_stdout {
        eprintln!(
            "wrote {} ({} kB)",
            shown(&args.output),
            text.len().div_ceil(1000)
        );
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
