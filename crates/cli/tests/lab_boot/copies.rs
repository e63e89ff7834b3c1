//! Folders of saved machines for a single test.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use super::boots::states::{States, is_machine};
use super::boots::{host_vmbell, output};

impl States {
    /// A folder without machines.
    pub fn empty() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        Self::in_cache(scratch.path().to_path_buf(), Some(scratch))
    }

    /// A copy with the same machines.
    pub fn copy(&self) -> Self {
        let copy = Self::empty();
        copy.take_from(self);
        copy
    }

    /// Replaces the machines with those of another folder.
    pub fn take_from(&self, other: &Self) {
        if self.folder().exists() {
            fs::remove_dir_all(self.folder()).unwrap();
        }
        fs::create_dir(self.folder()).unwrap();
        let names = other.names().into_iter().filter(|name| is_machine(name));
        let digests = Some("digests".to_owned()).filter(|name| other.folder().join(name).exists());
        // Most of a machine's memory is holes.
        let mut command = Command::new("cp");
        command.args(["--sparse=always", "-r"]);
        command.args(names.chain(digests).map(|name| other.folder().join(name)));
        assert!(command.arg(self.folder()).status().unwrap().success());
    }

    /// Runs `vmbell lab status` and the like on a cache without packages, which would otherwise also be checked or
    /// removed.
    pub fn manage(&self, words: &[&str]) -> Output {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir(cache.path().join("vmbell")).unwrap();
        symlink(self.folder(), cache.path().join("vmbell/states")).unwrap();
        let mut command = Command::new(host_vmbell());
        command.arg("lab").args(words);
        output(command.env("XDG_CACHE_HOME", cache.path()))
    }

    /// Runs a shell script in L1, and returns its output.
    pub fn run(&self, machine: &[&str], script: &str) -> Output {
        output(self.lab(machine).args(["--", "/bin/sh", "-c", script]))
    }
}
