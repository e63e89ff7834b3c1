//! The command line of `vmbell lab -- vmbell ...`: parsed on this host before any boot, by the same parser as in L1,
//! and then rewritten with L1's paths.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::args::forward::{self, is_given, option};
use crate::suites::{BenchSuite, SuiteArgs};
use crate::sweep::SweepArgs;
use vmbell_report::{EXPORTERS, Exporter};

/// The name of this program.
const NAME: &str = "vmbell";
/// The command of vmbell that measures.
const BENCH: &str = "bench";
/// The command of vmbell that sweeps VMMs.
const SWEEP: &str = "sweep";

/// A command of this program that is to run in L1.
#[derive(Debug)]
pub(super) struct Inner {
    /// The suite that the command measures, if any.
    pub(super) suite: Option<BenchSuite>,
    /// The sweep, if the command is one.
    pub(super) sweep: Option<SweepArgs>,
    /// The words that follow `vmbell`.
    words: Vec<OsString>,
    /// The names of the command and of its subcommands.
    path: Vec<OsString>,
    command: Command,
    matches: ArgMatches,
}

impl Inner {
    /// The command, if `program` is this program, whose arguments `parser` parses; fails with the parser's error or
    /// help.
    pub(super) fn of(program: &[OsString], parser: &Command) -> Result<Option<Self>, clap::Error> {
        match program.split_first() {
            Some((program, words)) if is_this_program(program) => {
                Self::parse(words, parser).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn parse(words: &[OsString], parser: &Command) -> Result<Self, clap::Error> {
        let line = [OsString::from(NAME)].into_iter().chain(words.to_vec());
        let matches = parser.clone().try_get_matches_from(line)?;
        let bench = matches.subcommand_matches(BENCH);
        let suite = bench.map(SuiteArgs::from_arg_matches).transpose()?;
        let sweep = matches.subcommand_matches(SWEEP);
        let sweep = sweep.map(SweepArgs::from_arg_matches).transpose()?;
        let (path, command, matches) = forward::innermost(parser.clone(), matches);
        Ok(Self {
            suite: suite.map(BenchSuite::from),
            sweep,
            words: words.to_vec(),
            path,
            command,
            matches,
        })
    }

    /// Whether the command runs VMMs, of which QEMU is one.
    pub(super) fn runs_vmms(&self) -> bool {
        self.sweep.is_some() || matches!(self.suite, Some(BenchSuite::Vmms(_)))
    }

    /// The words that follow `vmbell` in L1: the user's, with options added and replaced.
    pub(super) fn words(
        &self,
        defaults: &[(&str, &str)],
        replaced: &[(&str, OsString)],
    ) -> Vec<OsString> {
        if self.suite.is_none() {
            return self.words.clone();
        }
        let mut words = self.path.clone();
        for (name, value) in defaults {
            if !self.has(name) {
                words.push(option(name, value.as_ref()));
            }
        }
        words.extend(replaced.iter().map(|(name, value)| option(name, value)));
        let names: Vec<&str> = replaced.iter().map(|(name, _)| *name).collect();
        words.extend(forward::words(&self.command, &self.matches, &names));
        words
    }

    /// Whether the user gives this option.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut args = self.command.get_arguments();
        args.any(|arg| arg.get_long() == Some(name) && is_given(&self.matches, arg))
    }

    /// Whether this is a measurement with exports in this format.
    pub(super) fn has_export(&self, exporter: Exporter) -> bool {
        let mut args = self.command.get_arguments();
        self.suite.is_some() && args.any(|arg| arg.get_long() == Some(exporter.option))
    }

    /// The files of the `--export-...` options.
    pub(super) fn exports(&self) -> Vec<(Exporter, PathBuf)> {
        let files = |exporter: Exporter| {
            let values = self.values(exporter.option);
            values.map(move |value| (exporter, value.into()))
        };
        EXPORTERS.into_iter().flat_map(files).collect()
    }

    /// The files of this host on the command line, as absolute paths.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let is_path = |parser: &ValueParser| parser.type_id() == ValueParser::path_buf().type_id();
        let args = self.command.get_arguments().filter(|arg| {
            let name = arg.get_long().unwrap_or_default();
            is_path(arg.get_value_parser())
                && is_given(&self.matches, arg)
                && EXPORTERS.iter().all(|exporter| exporter.option != name)
        });
        args.flat_map(|arg| self.matches.get_raw(arg.get_id().as_str()))
            .flatten()
            .filter(|path| Path::new(path).is_file())
            .filter_map(|path| std::path::absolute(path).ok())
            .collect()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        let mut args = self.command.get_arguments();
        let arg = args.find(|arg| arg.get_long() == Some(name));
        let arg = arg.filter(|arg| is_given(&self.matches, arg));
        let values = arg.and_then(|arg| self.matches.get_raw(arg.get_id().as_str()));
        values.into_iter().flatten()
    }
}

/// Whether this names the running program, by its name or a path to its file.
fn is_this_program(program: &OsStr) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let own = || env::current_exe().ok().and_then(|own| id(&own));
    program == NAME || is_path && id(Path::new(program)).is_some_and(|id| Some(id) == own())
}

#[cfg(test)]
#[path = "inner_test.rs"]
mod tests;
