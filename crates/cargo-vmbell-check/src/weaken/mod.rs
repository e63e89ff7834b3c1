//! `cargo vmbell-check test --weaken`: which memory orders the tests need.
//!
//! The checker in each test program weakens the orders of each scenario, and leaves a record in a folder. The records of
//! all tests make one table.

mod forms;
mod html;
mod instructions;
mod mutants;
mod record;
mod summary;

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::error::Error;
use summary::Summary;

/// The path that means standard output.
const STDOUT: &str = "-";

/// What `--weaken` and the options after it ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) weaken: bool,
    /// The only line to weaken, as `FILE:LINE`.
    pub(crate) site: Option<String>,
    /// The maximum number of executions of an exploration with weaker orders.
    pub(crate) bound: Option<u64>,
    pub(crate) fail_unneeded: bool,
    pub(crate) export_json: Option<PathBuf>,
    pub(crate) export_markdown: Option<PathBuf>,
    pub(crate) export_html: Option<PathBuf>,
}

impl Options {
    /// The first option that has no effect without `--weaken`.
    pub(crate) fn dependent(&self) -> Option<&'static str> {
        let given = [
            ("--site", self.site.is_some()),
            ("--bound", self.bound.is_some()),
            ("--fail-unneeded", self.fail_unneeded),
            ("--export-json", self.export_json.is_some()),
            ("--export-markdown", self.export_markdown.is_some()),
            ("--export-html", self.export_html.is_some()),
        ];
        given
            .iter()
            .find(|(_, is_given)| *is_given)
            .map(|(name, _)| *name)
    }

    /// How many exports go to standard output.
    fn exports_to_stdout(&self) -> usize {
        let exports = [&self.export_json, &self.export_markdown, &self.export_html];
        let to_stdout = |path: &&PathBuf| path.as_os_str() == STDOUT;
        exports.into_iter().flatten().filter(to_stdout).count()
    }

    /// Checks that standard output has room for what goes there.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.exports_to_stdout() {
            0 | 1 => Ok(()),
            _ => Err(Error::OneStdout),
        }
    }
}

/// Checks the value of `--site`.
pub(crate) fn check_site(site: &str) -> Result<(), Error> {
    let parts = site.rsplit_once(':');
    match parts.map(|(file, line)| (file.is_empty(), line.parse::<u32>())) {
        Some((false, Ok(_))) => Ok(()),
        _ => Err(Error::Site(site.to_string())),
    }
}

/// The records of one run of cargo, in a folder that is removed at the end.
pub(crate) struct Records<'a> {
    options: &'a Options,
    folder: PathBuf,
}

impl<'a> Records<'a> {
    /// Makes the folder in the target folder of the builds, and tells the tests about it.
    pub(crate) fn begin(
        options: &'a Options,
        target: &Path,
        cargo: &mut Command,
    ) -> Result<Records<'a>, Error> {
        let folder = target.join(format!("weaken-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        cargo.env("VMBELL_CHECK_WEAKEN", &folder);
        if let Some(site) = &options.site {
            cargo.env("VMBELL_CHECK_WEAKEN_SITE", site);
        }
        if let Some(bound) = options.bound {
            cargo.env("VMBELL_CHECK_WEAKEN_BOUND", bound.to_string());
        }
        if options.exports_to_stdout() > 0 {
            let stderr = io::stderr().as_fd().try_clone_to_owned();
            cargo.stdout(stderr.map_err(Error::file("open", "standard error"))?);
        }
        Ok(Records { options, folder })
    }

    /// Prints and exports what the tests have recorded. Returns 1 if nothing was weakened or an order is not needed.
    pub(crate) fn finish(&self) -> Result<ExitCode, Error> {
        let records = record::read(&self.folder)?;
        if records.is_empty() {
            return Err(Error::NothingExplored);
        }
        let summary = Summary::new(records);
        let text = forms::text(&summary, self.options.site.as_deref());
        match self.options.exports_to_stdout() {
            0 => print!("{text}"),
            _ => eprint!("{text}"),
        }
        if let Some(path) = &self.options.export_markdown {
            export(path, &forms::markdown(&summary))?;
        }
        if let Some(path) = &self.options.export_json {
            export(path, &format!("{:#}\n", forms::json(&summary)))?;
        }
        if let Some(path) = &self.options.export_html {
            export(path, &html::page(&summary))?;
        }
        eprintln!(
            "vmbell-check: {} with changes, {}",
            counted(summary.explorations, "exploration"),
            counted(summary.executions, "execution"),
        );
        let fails = self.options.fail_unneeded && summary.unneeded().next().is_some();
        let is_empty = summary.sites.is_empty() && summary.mutants.is_empty();
        Ok(if is_empty || fails {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

impl Drop for Records<'_> {
    fn drop(&mut self) {
        // What is left is removed with the builds.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn export(path: &Path, text: &str) -> Result<(), Error> {
    if path.as_os_str() == STDOUT {
        let written = io::stdout().write_all(text.as_bytes());
        return written.map_err(Error::file("write", "standard output"));
    }
    fs::write(path, text).map_err(Error::file("write", path))
}
