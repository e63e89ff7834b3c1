//! A `vmbell lab` with its own cache, and with scripts instead of the programs that it calls.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a shell script into the only folder on PATH. In it, `$root` is the sandbox.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path("bin").join(name);
        let root = self.folder.path().display();
        let text = format!("#!/bin/sh\nPATH=/usr/bin:/bin\nroot={root}\n{body}\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A script that replaces QEMU: it reports `version`, otherwise runs `body`.
    pub fn qemu(&self, version: &str, body: &str) -> PathBuf {
        let hello = format!(
            "case \"$1\" in --version) echo 'QEMU emulator version {version} (Fake)'; exit 0;; esac"
        );
        self.script("fake-qemu", &format!("{hello}\n{body}"))
    }

    /// A script that replaces `apt-get`, with these bodies of subcommands, and a `dpkg-deb` that does nothing.
    pub fn apt(&self, update: &str, list: &str, download: &str) {
        let body = format!(
            "archives=$(dirname $APT_CONFIG)/archives\n\
             case \"$*\" in\n\
             --version) ;;\n\
             update*) {update} ;;\n\
             *--print-uris*) {list} ;;\n\
             *--download-only*) {download} ;;\n\
             esac"
        );
        self.script("apt-get", &body);
        self.script("dpkg-deb", "exit 0");
    }

    pub fn vmbell(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmbell"));
        command
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("NO_COLOR", "1");
        command
    }

    /// Runs `line` once for each row `ARGUMENTS => MESSAGE`, with the arguments in place of `{}`; they may include
    /// vmbell's environment variables. Fails unless the status is `status`, stderr has the message, and no QEMU prints
    /// that it booted. Returns the stderr of the last row.
    #[track_caller]
    pub fn refuses(&self, status: i32, line: &str, rows: &str) -> String {
        assert!(!rows.trim().is_empty(), "no rows of {line}");
        let mut said = String::new();
        for row in rows.trim().lines() {
            let (arguments, message) = row.split_once("=>").unwrap();
            assert!(!message.trim().is_empty(), "no message in {row:?}");
            let line = line.replace("{}", arguments);
            let mut command = self.vmbell();
            command.current_dir(self.folder.path());
            for word in line.split_whitespace() {
                match word.split_once('=') {
                    Some((name, value)) if name.starts_with("VMBELL_") => command.env(name, value),
                    _ => command.arg(word),
                };
            }
            let output = command.output().unwrap();
            said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(status), "{line}: {said}");
            assert!(
                said.contains(message.trim()),
                "{line}: not {message:?}, but {said}"
            );
            assert!(!said.contains("booted"), "{line}: {said}");
        }
        said
    }

    /// Files in the cache, left by preparations, that are not entries.
    pub fn left(&self) -> Vec<String> {
        let mut left: Vec<_> = fs::read_dir(self.path("cache/vmbell/lab"))
            .unwrap()
            .map(|item| item.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("draft-") || name == "downloads")
            .collect();
        left.sort();
        left
    }

    /// A file that a scripted QEMU accepts as a kernel.
    pub fn kernel(&self) -> PathBuf {
        let kernel = self.path("kernel");
        if !kernel.exists() {
            fs::copy("/bin/true", &kernel).unwrap();
        }
        kernel
    }

    /// `vmbell lab kernel` with this QEMU and such a kernel, which does not try to save the machine.
    pub fn run(&self, qemu: &Path) -> Command {
        self.run_as(&["lab", "kernel", "--cold"], qemu)
    }

    /// Like [`run`](Self::run), with these words.
    pub fn run_as(&self, words: &[&str], qemu: &Path) -> Command {
        let kernel = self.kernel();
        let mut command = self.vmbell();
        command
            .args(words)
            .args(["--modules", "none", "--kernel"])
            .arg(kernel)
            .arg("--qemu")
            .arg(qemu);
        command
    }
}

/// Allows or forbids writing to a folder and everything in it.
pub fn set_writable(path: &Path, writable: bool) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode();
    let mode = if writable {
        mode | 0o200
    } else {
        mode & !0o222
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if metadata.is_dir() {
        for item in fs::read_dir(path).unwrap() {
            set_writable(&item.unwrap().path(), writable);
        }
    }
}

/// Sends a signal to a process.
pub fn kill(pid: impl std::fmt::Display, signal: &str) {
    let line = format!("kill -s {signal} {pid}");
    let status = Command::new("sh").args(["-c", &line]).status();
    assert!(status.unwrap().success());
}

/// Whether a process is gone, or is a zombie that its new parent has not reaped yet.
pub fn is_gone(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .map_or(true, |stat| stat.contains(") Z "))
}
