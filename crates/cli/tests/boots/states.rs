//! Folders of saved machines for tests, separate from the user's. Downloads are shared with the user's lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use vmbell_lab::cache::Cache;

use super::late::output_with_a_late_main_loop;
use super::{lab, output, text};

/// A folder of saved machines.
#[derive(Debug)]
pub struct States {
    cache: PathBuf,
    scratch: Option<TempDir>,
}

impl States {
    /// The folder of this machine, which tests share. The first run saves the machine there, and no other machine is
    /// saved. The folder is in cargo's folder for tests, and stays.
    pub fn of(machine: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("states");
        Self::in_cache(folder.join(crate::BOARD.arch.name).join(machine), None)
    }

    /// A folder of saved machines in this cache, which is temporary or stays.
    pub fn in_cache(cache: PathBuf, scratch: Option<TempDir>) -> Self {
        let packages = cache.join("vmbell/lab");
        fs::create_dir_all(cache.join("vmbell")).unwrap();
        if fs::symlink_metadata(&packages).is_err() {
            // Another process may have made the link.
            let _ = symlink(Cache::user().unwrap().root(), &packages);
        }
        Self { cache, scratch }
    }

    /// The folder that has a folder for each machine.
    pub fn folder(&self) -> PathBuf {
        self.cache.join("vmbell/states")
    }

    /// The names in the folder, without the list of digests.
    pub fn names(&self) -> Vec<String> {
        let list = fs::read_dir(self.folder()).into_iter().flatten();
        let names = list.map(|item| item.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "digests").collect();
        names.sort();
        names
    }

    /// The folder of the only machine.
    pub fn only(&self) -> PathBuf {
        let names = self.names();
        let [name] = names.as_slice() else {
            panic!("one machine is expected: {names:?}");
        };
        assert!(is_machine(name), "{name}");
        self.folder().join(name)
    }

    /// `vmbell lab` with these arguments and these machines.
    pub fn lab(&self, arguments: &[&str]) -> Command {
        self.with(lab(arguments))
    }

    /// A `vmbell lab` command with these machines.
    pub fn with(&self, mut command: Command) -> Command {
        command.env("XDG_CACHE_HOME", &self.cache);
        if self.scratch.is_none() {
            // With this limit, machines of an older version are removed when a new one is saved.
            command.env("VMBELL_STATE_LIMIT", "1");
        }
        command
    }
}

/// Whether this is the name of a machine's folder, not of a draft or a lock.
pub fn is_machine(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// How the machine began, from the last line on standard error: `from a saved state` or `booted`.
pub fn beginning(output: &Output) -> String {
    let said = text(&output.stderr);
    let last = said.trim_end().lines().last().unwrap_or_default();
    let parts = last.split_once(" of CPU, ").map(|(_, rest)| rest);
    let parts = parts.and_then(|rest| rest.rsplit_once(", retries "));
    parts.unwrap_or_else(|| panic!("{said}")).0.to_owned()
}

pub const SAVED: &str = "from a saved state";

/// A deterministic `vmbell bench` of these rows at this depth reports the same from a saved state and after a boot,
/// with and without a seed, even if QEMU's main loop is late. One state serves both.
pub fn figures_do_not_depend_on_the_beginning(depth: u32, rows: &[&str]) {
    let states = match depth {
        1 => States::of("deterministic"),
        depth => States::of(&format!("deterministic-depth-{depth}")),
    };
    let measure = |options: &[&str], run: fn(&mut Command) -> Output| {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let mut command = states.lab(options);
        command.arg(format!("--depth={depth}"));
        command.args(["--", "vmbell", "bench", "--ops", "50", "--only"]);
        command.args(rows).arg("--export-json").arg(&report);
        let output = run(&mut command);
        assert!(output.status.success());
        let began = beginning(&output);
        (fs::read_to_string(report).unwrap(), began, states.only())
    };
    let mut reports = Vec::new();
    for seed in [&[][..], &["--seed", "3"]] {
        let options = [seed, &["--deterministic"]].concat();
        let (saved, began, state) = measure(&options, output);
        assert_eq!(began, SAVED);
        let options = [&options[..], &["--cold"]].concat();
        let (booted, began, same) = measure(&options, output_with_a_late_main_loop);
        assert_eq!((began.as_str(), same), ("booted", state.clone()));
        assert!(saved == booted, "{seed:?}: {saved}\n{booted}");
        reports.push((saved, state));
    }
    assert_eq!(reports[0].1, reports[1].1);
    assert_ne!(reports[0].0, reports[1].0);
}
