//! What a script needs to run: the interpreter in its first line, and the folders with the interpreter's modules.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{LabError, failed};

/// How much of a script to read to get its first line.
const LINE: u64 = 4096;
/// The beginnings of the names of interpreters that need their own modules to start or to be useful.
const WITH_MODULES: [&str; 3] = ["python", "perl", "ruby"];
/// Folders with modules, next to the folder of the interpreter.
const FOLDERS: [&str; 3] = ["lib", "lib64", "share"];

/// The interpreter of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The words of the command: interpreter and argument, without a preceding `env`.
    pub words: Vec<String>,
    /// The interpreter's program, if this host has it.
    pub program: Option<PathBuf>,
    /// The preceding `env`, which finds the interpreter.
    pub env: Option<PathBuf>,
}

impl Interpreter {
    /// Returns the interpreter of the script in this file; `None` if the file is not a script.
    pub fn of(script: &Path) -> Option<Self> {
        let mut begin = Vec::new();
        let file = File::open(script).ok()?;
        file.take(LINE).read_to_end(&mut begin).ok()?;
        Self::of_line(&begin)
    }

    /// Returns the interpreter that the first line of these bytes names.
    pub fn of_line(begin: &[u8]) -> Option<Self> {
        let rest = begin.strip_prefix(b"#!")?;
        let line = rest.split(|byte| *byte == b'\n').next()?;
        let line = String::from_utf8_lossy(line);
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let is_env = |word: &String| Path::new(word).file_name() == Some("env".as_ref());
        let mut env = None;
        if words.first().is_some_and(is_env) {
            let options = words[1..].iter().take_while(|word| word.starts_with('-'));
            let before = words.drain(..=options.count()).next();
            env = before.map(PathBuf::from);
        }
        // A script of that name is a shim, which only starts another program.
        let all = which::which_all(words.first()?).ok();
        let program = all.and_then(|mut all| all.find(|path| !is_script(path)));
        Some(Self {
            words,
            program,
            env,
        })
    }

    /// Returns the error for a script given as the program for an L1 of this architecture. Its hint says how to run the
    /// script.
    pub(super) fn refuse(self, script: &Path, arch: &str) -> LabError {
        let what = format!("{} is a script", script.display());
        if self.program.is_none() {
            let interpreter = &self.words[0];
            return failed!("{what}, and its interpreter {interpreter} is not on this machine");
        }
        let modules = self.modules(&format!("{arch}-linux-gnu"));
        let mut words = self.words;
        if let Some(program) = self.program {
            words[0] = program.display().to_string();
        }
        words.push(script.display().to_string());
        let files = with(std::iter::once(script).chain(modules.iter().map(PathBuf::as_path)));
        let words = words.join(" ");
        LabError::new(what).hint(format!(
            "run its interpreter, `vmbell lab {files} -- {words} ...`"
        ))
    }

    /// Returns the folders with the interpreter's modules on this host.
    pub fn modules(&self, triplet: &str) -> Vec<PathBuf> {
        let program = self.program.as_deref();
        program.map_or(Vec::new(), |program| modules(program, triplet))
    }
}

/// Returns the options that copy these files.
pub fn with(paths: impl IntoIterator<Item: AsRef<Path>>) -> String {
    let options: Vec<String> = paths
        .into_iter()
        .map(|path| format!("--with {}", path.as_ref().display()))
        .collect();
    options.join(" ")
}

fn is_script(path: &Path) -> bool {
    let mut begin = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *b"#!"
}

/// Returns the folders with the modules of this program, if it is an interpreter that needs modules: folders with the
/// interpreter's name, which may be followed by a version or a part: `python3.11`, `perl5`, `perl-base`.
pub fn modules(program: &Path, triplet: &str) -> Vec<PathBuf> {
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let Some(kind) = WITH_MODULES.iter().find(|kind| name.starts_with(**kind)) else {
        return Vec::new();
    };
    let Some(root) = program.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    let is_own = |other: &str| match *kind {
        // Each Python version has its own modules.
        "python" => *other == *name,
        kind => other
            .strip_prefix(kind)
            .is_some_and(|rest| rest.is_empty() || rest == "5" || rest == "-base"),
    };
    let folders = FOLDERS.map(PathBuf::from);
    let folders = folders.into_iter().chain([Path::new("lib").join(triplet)]);
    let mut found = Vec::new();
    for folder in folders {
        let list = fs::read_dir(root.join(folder)).into_iter().flatten();
        let items = list.flatten().filter(|item| item.path().is_dir());
        let own = items.filter(|item| is_own(&item.file_name().to_string_lossy()));
        found.extend(own.map(|item| item.path()));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_names_an_interpreter_with_its_argument_and_perhaps_env() {
        for (line, words) in [
            ("#!/bin/sh\necho", &["/bin/sh"][..]),
            ("#! /bin/sh -e", &["/bin/sh", "-e"]),
            ("#!/usr/bin/env sh\n", &["sh"]),
            ("#!/usr/bin/env -S sh -e\n", &["sh", "-e"]),
        ] {
            let interpreter = Interpreter::of_line(line.as_bytes()).unwrap();
            assert_eq!(interpreter.words, words, "{line}");
            assert!(interpreter.program.is_some());
        }
        let missing = Interpreter::of_line(b"#!/nonexistent/python3").unwrap();
        assert_eq!((missing.program, missing.words.len()), (None, 1));
        for no_script in [&b"echo"[..], b"#!", b"#!/usr/bin/env"] {
            assert_eq!(Interpreter::of_line(no_script), None);
        }
    }

    #[test]
    fn modules_are_the_interpreters_own() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in [
            "bin",
            "lib/python3",
            "lib/python3.11",
            "lib/python3.12",
            "lib/t/perl-base",
            "share/perl5",
            "share/perl-doc",
            "lib/bash",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for program in ["python3.11", "perl", "bash"] {
            fs::write(root.join("bin").join(program), "").unwrap();
        }
        std::os::unix::fs::symlink("python3.11", root.join("bin/python3")).unwrap();
        let found = |program| modules(&root.join("bin").join(program), "t");
        assert_eq!(found("python3"), [root.join("lib/python3.11")]);
        assert_eq!(
            found("perl"),
            [root.join("lib/t/perl-base"), root.join("share/perl5")]
        );
        assert!(found("bash").is_empty());
    }
}
