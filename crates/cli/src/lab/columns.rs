//! Runs a command of this program that measures VMMs in L1, in one boot, with the lab's QEMU as one of them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::environment;
use super::exported::Exported;
use super::machine::{Machine, announce, status, summarize};
use super::parts::Parts;
use crate::exports::ExportArgs;
use vmbell_lab::boot::Settings;
use vmbell_lab::qemu::Qemu;
use vmbell_lab::{Lab, Task};

/// Where the lab's QEMU is found in L1.
const QEMU_FILE: &str = "/usr/local/bin/qemu-system-x86_64";
/// What runs the script that is there.
const SHELL: &str = "/bin/sh";
/// How wide the table is.
const COLUMNS: &str = "80";

/// A command, as the user and the lab give it.
pub(super) struct Command<'a> {
    pub(super) parts: &'a Parts,
    pub(super) machine: &'a Machine,
    /// The files that the user wants, and what was opened for them before L1 is made.
    pub(super) reports: &'a ExportArgs,
    pub(super) exports: Vec<Exported>,
    /// Its name, and options that it always has.
    pub(super) begin: Vec<OsString>,
    /// Options that it has unless the user gives them.
    pub(super) defaults: Vec<(&'static str, &'a str)>,
    /// The user's options.
    pub(super) options: &'a [OsString],
    /// The columns that the user wants: VMMs, or ways; all without any.
    pub(super) names: &'a [String],
    /// Files of this host that it needs beside QEMU's, each with its path in L1.
    pub(super) with: Vec<(PathBuf, PathBuf)>,
    /// Modules of the kernel that it needs.
    pub(super) modules: Vec<String>,
}

impl Command<'_> {
    /// Runs it; the exit status is its own.
    pub(super) fn run(self, lab: &Lab, settings: &Settings) -> anyhow::Result<ExitCode> {
        let arguments = self.words();
        // The same on every host: the environment moves what is on the program's stack.
        let width = [("COLUMNS".to_owned(), COLUMNS.to_owned())];
        let mut with = self.with;
        with.extend(carried(&lab.qemu)?);
        let task = Task {
            program: lab.init.clone().into(),
            arguments,
            environment: environment::in_l1(Vec::new(), &width, self.machine.timing()),
            directory: "/".into(),
            with,
            scripts: vec![(QEMU_FILE.into(), lab.qemu.script())],
            modules: self.modules,
            out: !self.exports.is_empty(),
            ..Task::default()
        };
        announce(lab, settings);
        let mut outcome = lab.run(&task, settings)?;
        summarize(&outcome, lab.progress);
        let status = status(&outcome, settings)?;
        Exported::finish(self.exports, &mut outcome, status)?;
        Ok(ExitCode::from(status))
    }

    /// The arguments that follow `vmbell`.
    fn words(&self) -> Vec<OsString> {
        let mut words = self.begin.clone();
        for (option, value) in &self.defaults {
            let is_it = |word: &OsString| {
                let word = word.to_str().unwrap_or_default();
                word.split('=').next() == Some(option)
            };
            if !self.options.iter().any(is_it) {
                words.extend([(*option).into(), value.into()]);
            }
        }
        if self.parts.quiet {
            words.push("--quiet".into());
        }
        words.extend(Exported::words(self.reports, &self.exports));
        words.extend(self.options.iter().cloned());
        words.push("--".into());
        words.extend(self.names.iter().map(OsString::from));
        words
    }
}

/// The files of this host that QEMU needs in L1, each with its path there.
fn carried(qemu: &Qemu) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let same = |path: PathBuf| (path.clone(), path);
    let mut with: Vec<(PathBuf, PathBuf)> = qemu.files().into_iter().map(same).collect();
    // The interpreter of QEMU's script, with its libraries.
    let shell = fs::canonicalize(Path::new(SHELL)).context("this host has no shell")?;
    with.push((shell, SHELL.into()));
    Ok(with)
}
