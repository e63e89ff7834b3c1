//! The options `--export-...`: files that the report is written to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::OUTPUT;
use crate::exit::Usage;
use vmbell_report::{Block, EXPORTERS, Export, Exporter, Report, TimeUnit, html, markdown};

/// Where the report is written: an option `--export-NAME FILE` for each of [`EXPORTERS`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportArgs(Vec<(Exporter, PathBuf)>);

impl Args for ExportArgs {
    fn augment_args(command: Command) -> Command {
        command.args(EXPORTERS.map(|exporter| {
            Arg::new(exporter.option)
                .long(exporter.option)
                .help_heading(OUTPUT)
                .value_name("FILE")
                .help(exporter.help)
                .value_parser(value_parser!(PathBuf))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ExportArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |exporter: Exporter| {
            let path = matches.get_one::<PathBuf>(exporter.option)?;
            Some((exporter, path.clone()))
        };
        Ok(Self(EXPORTERS.into_iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ExportArgs {
    /// The requested formats with their files, in the order of the options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Exporter, &Path)> {
        let given = self.0.iter();
        given.map(|(exporter, path)| (*exporter, path.as_path()))
    }

    /// The files.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        self.given().map(|(_, path)| path).collect()
    }
}

/// The files and streams that the report is exported to.
pub(crate) struct Exports(Vec<(Export, Exporter)>);

impl Exports {
    /// Opens all exports before anything is measured.
    pub(crate) fn open(args: &ExportArgs) -> Result<Self> {
        distinct(&args.paths()).map_err(Usage::new)?;
        let mut exports = Vec::new();
        for (exporter, path) in args.given() {
            exports.push((Export::open(path)?, exporter));
        }
        one_to_stdout(exports.iter().map(|(to, _)| to)).map_err(Usage::new)?;
        Ok(Self(exports))
    }

    /// Whether one of them is stdout, so that nothing else may be printed there.
    pub(crate) fn use_stdout(&self) -> bool {
        self.0.iter().any(|(to, _)| to.is_stdout())
    }

    /// Writes all exports that can be written, those for people with times in `unit`, and returns the first error.
    pub(crate) fn finish(self, report: &Report, unit: Option<TimeUnit>) -> Result<()> {
        let results: Vec<Result<(), _>> = self
            .0
            .into_iter()
            .map(|(to, exporter)| to.finish(&(exporter.write)(report, unit)))
            .collect();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }
}

/// The export options of a command whose result is not a report.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BlockExportArgs {
    /// Write what is shown as Markdown; - is stdout
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    export_markdown: Option<PathBuf>,

    /// Write what is shown as a page for a browser; - is stdout
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    export_html: Option<PathBuf>,
}

impl BlockExportArgs {
    /// The files.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let paths = [&self.export_markdown, &self.export_html].into_iter();
        paths.filter_map(|path| path.as_deref()).collect()
    }
}

/// Writes blocks, with a title if the format has one.
type BlockWriter = fn(&str, &[Block]) -> String;

/// The files and streams that blocks are exported to.
pub(crate) struct BlockExports(Vec<(Export, BlockWriter)>);

impl BlockExports {
    /// Opens all exports before anything is measured or read.
    pub(crate) fn open(args: &BlockExportArgs) -> Result<Self> {
        distinct(&args.paths()).map_err(Usage::new)?;
        let formats: [(_, BlockWriter); 2] = [
            (&args.export_markdown, |_, blocks| markdown(blocks)),
            (&args.export_html, html),
        ];
        let mut exports = Vec::new();
        for (path, writer) in formats {
            if let Some(path) = path {
                exports.push((Export::open(path)?, writer));
            }
        }
        one_to_stdout(exports.iter().map(|(to, _)| to)).map_err(Usage::new)?;
        Ok(Self(exports))
    }

    /// Whether one of them is stdout, so that nothing else may be printed there.
    pub(crate) fn use_stdout(&self) -> bool {
        self.0.iter().any(|(to, _)| to.is_stdout())
    }

    /// Writes all exports that can be written, and returns the first error.
    pub(crate) fn finish(self, title: &str, blocks: &[Block]) -> Result<()> {
        let exports = self.0.into_iter();
        let results: Vec<Result<(), _>> = exports
            .map(|(to, writer)| to.finish(&writer(title, blocks)))
            .collect();
        Ok(results.into_iter().collect::<Result<(), _>>()?)
    }
}

/// Fails if two exports go to stdout.
fn one_to_stdout<'e>(exports: impl Iterator<Item = &'e Export>) -> Result<()> {
    match exports.filter(|to| to.is_stdout()).count() {
        0 | 1 => Ok(()),
        _ => bail!("only one --export-... can go to stdout"),
    }
}

/// Returns the first input report that an export would overwrite.
pub(crate) fn replaced<'p>(
    exports: &[&Path],
    reports: impl IntoIterator<Item = &'p PathBuf>,
) -> Option<&'p Path> {
    let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let is_same = |one: &Path, other: &Path| id(one).is_some_and(|one| Some(one) == id(other));
    let mut reports = reports.into_iter().map(PathBuf::as_path);
    reports.find(|report| exports.iter().any(|export| is_same(export, report)))
}

/// Fails if two exports have the same file, because only the last would be left.
pub(crate) fn distinct(paths: &[&Path]) -> Result<()> {
    let place = |path: &Path| fs::canonicalize(path).or_else(|_| absolute(path)).ok();
    for (index, path) in paths.iter().enumerate() {
        let is_same = |other: &&&Path| place(other) == place(path);
        // Stdout, devices and pipes can take several texts.
        let is_stream = *path == Path::new("-") || path.metadata().is_ok_and(|to| !to.is_file());
        if !is_stream && paths[..index].iter().any(|other| is_same(&other)) {
            bail!(
                "two exports go to '{}': give each its own file",
                path.display()
            );
        }
    }
    Ok(())
}
