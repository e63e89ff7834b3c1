//! `vmbell compare`: reads the reports of two sides, shows what changed, and can fail on regressions.

mod args;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};

pub(super) use self::args::CompareArgs;
use super::exit::{Exit, Usage};
use crate::args::exports::{BlockExports, distinct, replaced};
use crate::output::deliver::show;
use crate::output::style::Style;
use crate::output::text::made_visible;
use vmbell_report::compare::{
    CompareError, CompareOptions, Comparison, Pairing, RowKey, Verdict, compare, json,
};
use vmbell_report::{Export, Report, parse, units, visible};

/// Compares, exports and shows. Every error has the status of wrong arguments, so that status 1 means only that a row
/// costs more.
pub(super) fn run(args: &CompareArgs) -> Result<Exit> {
    Ok(compared(args).map_err(Usage::new)?)
}

fn compared(args: &CompareArgs) -> Result<Exit> {
    let (old, new) = sides(args)?;
    keep_inputs(args, old.iter().chain(new))?;
    let json_export = args.export_json.as_deref().map(Export::open).transpose()?;
    let exports = BlockExports::open(&args.exports)?;
    let is_json_stdout = json_export.as_ref().is_some_and(Export::is_stdout);
    if is_json_stdout && exports.use_stdout() {
        bail!("only one --export-... can go to stdout");
    }
    let options = CompareOptions {
        pairing: if args.turns {
            Pairing::Turns
        } else {
            Pairing::Apart
        },
        seed: args.seed,
        band: args.band,
        allow_different: args.allow_different,
        ..CompareOptions::default()
    };
    let (old, new) = (read_all(old, "old")?, read_all(new, "new")?);
    let comparison = compare(&old, &new, &options).map_err(with_advice)?;
    let stdout_is_taken = is_json_stdout || exports.use_stdout();
    let written = json_export.map(|to| to.finish(&json(&comparison)));
    let exported = exports.finish("Comparison", &comparison.blocks(true));
    show(
        args.style,
        stdout_is_taken,
        &comparison.blocks(args.verbose),
    )?;
    written.transpose()?;
    exported?;
    let missing = match args.allow_missing {
        true => Vec::new(),
        false => comparison.only_old.iter().collect(),
    };
    Ok(verdict(&comparison, args.fail_above, &missing))
}

/// The files of both sides.
fn sides(args: &CompareArgs) -> Result<(&[PathBuf], &[PathBuf])> {
    match (args.old.as_slice(), args.new.as_slice()) {
        ([old, new], []) => Ok((std::slice::from_ref(old), std::slice::from_ref(new))),
        ([_], []) => bail!("there is nothing to compare with: name the new report too"),
        (_, []) => bail!(
            "it is not clear which reports are old and which are new: put -- between them, as in \
             vmbell compare old*.json -- new*.json"
        ),
        (old, new) => Ok((old, new)),
    }
}

/// Fails if an export would overwrite an input report or another export.
fn keep_inputs<'p>(args: &CompareArgs, reports: impl Iterator<Item = &'p PathBuf>) -> Result<()> {
    let mut exports = args.exports.paths();
    exports.extend(args.export_json.as_deref());
    distinct(&exports)?;
    if let Some(report) = replaced(&exports, reports) {
        let report = shown(report);
        bail!("the export would replace the report '{report}': give it another name");
    }
    Ok(())
}

/// Reads the reports of one side. Naming a file twice does not make it a second measurement.
fn read_all(paths: &[PathBuf], side: &str) -> Result<Vec<Report>> {
    let mut seen = BTreeSet::new();
    let read = |path: &PathBuf| {
        let report = read(path)?;
        let same = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if !seen.insert(same) {
            bail!(
                "'{}' is named twice on the {side} side: a report counts as one measurement",
                shown(path)
            );
        }
        Ok(report)
    };
    paths.iter().map(read).collect()
}

/// A path without control characters: the file may have been named by another user, and found by a glob.
pub(super) fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

/// Reads a report that the user named, and warns if it may be incomplete.
pub(super) fn read(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path).with_context(|| {
        let hint = match path.to_str() {
            Some("-") => " (reports are files here, and not stdin)",
            Some(name) if name.starts_with('-') => {
                " (everything after -- is a file: options go before it)"
            }
            _ => "",
        };
        format!("cannot read '{}'{hint}", shown(path))
    })?;
    parse(&text)
        .map_err(made_visible)
        .with_context(|| format!("cannot compare the report '{}'", shown(path)))
}

/// Fails if these reports cannot be compared.
pub(super) fn check(old: &[Report], new: &[Report], options: &CompareOptions) -> Result<()> {
    compare(old, new, options).map_err(with_advice)?;
    Ok(())
}

/// How a bench shows and judges a comparison with earlier reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchComparison {
    pub(super) style: Style,
    pub(super) verbose: bool,
    pub(super) fail_above: Option<f64>,
    /// Whether an export uses stdout, so that the comparison goes to stderr.
    pub(super) stdout_is_taken: bool,
}

impl BenchComparison {
    /// Compares reports that were just measured with earlier reports. A row that only the earlier reports have counts
    /// as missing only if `is_wanted` returns true for it.
    pub(super) fn run(
        self,
        old: &[Report],
        new: &[Report],
        options: &CompareOptions,
        is_wanted: impl Fn(&RowKey) -> bool,
    ) -> Result<Exit> {
        let comparison = compare(old, new, options).map_err(with_advice)?;
        let blocks = comparison.blocks(self.verbose);
        show(self.style, self.stdout_is_taken, &blocks)?;
        let missing = comparison.only_old.iter().filter(|key| is_wanted(key));
        let missing: Vec<&RowKey> = missing.collect();
        Ok(verdict(&comparison, self.fail_above, &missing))
    }
}

/// The error with advice.
fn with_advice(error: CompareError) -> anyhow::Error {
    let advice = match &error {
        CompareError::Different(_) => {
            "; --allow-different compares them nevertheless, and the numbers then mean what you know of them"
        }
        CompareError::Turns { .. } => "; without --turns the reports need no partners",
        CompareError::NothingInCommon { .. } => {
            ": measure the same names on the same backend before and after"
        }
        CompareError::Units => {
            ": measure both sides in vmbell lab --deterministic, or both sides without it"
        }
        CompareError::NoReport(_) | CompareError::Twice { .. } => "",
    };
    anyhow!("{error}{advice}")
}

/// Returns the exit status, and prints why it is a failure: rows that cost more by over `fail_above`, rows that
/// failed on the new side only, rows that are `missing`, or too little data to find any row that costs more. Also
/// prints the rows that may cost more.
fn verdict(comparison: &Comparison, fail_above: Option<f64>, missing: &[&RowKey]) -> Exit {
    let Some(threshold) = fail_above else {
        return Exit::Good;
    };
    let worse = comparison.worse_than(threshold);
    let worse: Vec<&RowKey> = worse.map(|row| &row.key).collect();
    let failed: Vec<&RowKey> = comparison.failed_now.iter().map(|row| &row.key).collect();
    let slower = Verdict::Slower.in_words(comparison.timing);
    let by_more = format!("{slower} by more than {}", units::percent(threshold));
    let mut exit = Exit::Good;
    for (what, rows) in [
        (by_more.as_str(), worse.as_slice()),
        ("failed now", &failed),
        ("not measured now (--allow-missing passes that)", missing),
    ] {
        if !rows.is_empty() {
            eprintln!("{what}: {}", names(rows));
            exit = Exit::Failed;
        }
    }
    if !comparison.can_judge() {
        eprintln!("not enough data for --fail-above: no row could be found to be {slower}");
        exit = Exit::Failed;
    }
    let unclear: Vec<&RowKey> = comparison
        .unclear_at(threshold)
        .map(|row| &row.key)
        .collect();
    if !unclear.is_empty() {
        eprintln!(
            "not enough data to tell whether they are {by_more}: {}",
            names(&unclear)
        );
    }
    exit
}

fn names(rows: &[&RowKey]) -> String {
    let names: Vec<String> = rows.iter().map(ToString::to_string).collect();
    names.join(", ")
}
