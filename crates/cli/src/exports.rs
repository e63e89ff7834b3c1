//! The options `--export-...`: where a report is written, besides the terminal.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Result, bail};
use clap::Args;

use super::exit::Usage;
use vmbell_report::{Export, Report, TimeUnit};

/// Where the report is written.
#[derive(Args, Debug)]
pub(super) struct ExportArgs {
    /// Write the report as JSON; - is stdout
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,

    /// Write the report as Markdown; - is stdout
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,

    /// Write every sample as CSV; - is stdout
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,

    /// Write the medians as OpenMetrics text, for example to a folder that node_exporter's textfile collector reads; -
    /// is stdout
    #[arg(long, value_name = "FILE")]
    export_openmetrics: Option<PathBuf>,
}

impl ExportArgs {
    /// Each option's name and what was given, in the order of the options.
    pub(super) fn given(&self) -> [(&'static str, Option<&Path>); 4] {
        [
            ("--export-json", self.export_json.as_deref()),
            ("--export-markdown", self.export_markdown.as_deref()),
            ("--export-csv", self.export_csv.as_deref()),
            ("--export-openmetrics", self.export_openmetrics.as_deref()),
        ]
    }
}

type Writer = fn(&Report, Option<TimeUnit>) -> String;

/// The files and streams that the report is exported to.
pub(super) struct Exports(Vec<(Export, Writer)>);

impl Exports {
    /// Opens all of them, before anything is measured.
    pub(super) fn open(args: &ExportArgs) -> Result<Self> {
        let writers: [Writer; 4] = [
            |report, _| vmbell_report::json(report),
            vmbell_report::markdown,
            |report, _| vmbell_report::csv(report),
            |report, _| vmbell_report::openmetrics(report),
        ];
        let given = args.given();
        let given: Vec<_> = given.iter().filter_map(|(_, path)| *path).collect();
        distinct(&given).map_err(Usage::new)?;
        let mut exports = Vec::new();
        for ((_, path), writer) in args.given().into_iter().zip(writers) {
            if let Some(path) = path {
                exports.push((Export::open(path)?, writer));
            }
        }
        if exports.iter().filter(|(to, _)| to.is_stdout()).count() > 1 {
            return Err(Usage::new("only one --export-... can go to stdout").into());
        }
        Ok(Self(exports))
    }

    /// Whether one of them is stdout, so that nothing else may be printed there.
    pub(super) fn use_stdout(&self) -> bool {
        self.0.iter().any(|(to, _)| to.is_stdout())
    }

    /// Writes all exports that can be written, those for people with times in `unit`, and returns the first error.
    pub(super) fn finish(self, report: &Report, unit: Option<TimeUnit>) -> Result<()> {
        let results: Vec<Result<(), _>> = self
            .0
            .into_iter()
            .map(|(to, writer)| to.finish(&writer(report, unit)))
            .collect();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }
}

/// The first of the reports to be read that one of the exports would replace.
pub(super) fn replaced<'p>(
    exports: &[&Path],
    reports: impl IntoIterator<Item = &'p PathBuf>,
) -> Option<&'p Path> {
    let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let is_same = |one: &Path, other: &Path| id(one).is_some_and(|one| Some(one) == id(other));
    let mut reports = reports.into_iter().map(PathBuf::as_path);
    reports.find(|report| exports.iter().any(|export| is_same(export, report)))
}

/// Fails if two exports would be one file, of which only the last would be left.
pub(super) fn distinct(paths: &[&Path]) -> Result<()> {
    let place = |path: &Path| fs::canonicalize(path).or_else(|_| absolute(path)).ok();
    for (index, path) in paths.iter().enumerate() {
        let is_same = |other: &&&Path| place(other) == place(path);
        // Stdout, devices and pipes take several texts.
        let is_stream = *path == Path::new("-") || path.metadata().is_ok_and(|to| !to.is_file());
        if !is_stream && paths[..index].iter().any(|other| is_same(&other)) {
            bail!(
                "two exports would be '{}': give each a file",
                path.display()
            );
        }
    }
    Ok(())
}
