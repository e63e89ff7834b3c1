//! A workspace in a temporary folder: an application, the subject that it tests, and a stand-in for the checker.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The copy of `fixture`.
pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cargo/fixture"),
            folder.path(),
        );
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command that runs `cargo vmbell-check` in the workspace, as cargo starts it.
    pub fn check(&self) -> Command {
        let mut command = self.clean(env!("CARGO_BIN_EXE_cargo-vmbell-check"));
        command.arg("vmbell-check");
        command
    }

    /// A command that runs cargo itself.
    pub fn cargo(&self) -> Command {
        self.clean(env!("CARGO"))
    }

    /// Writes a script that replaces a tool.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The folders in `target/vmbell-check`.
    pub fn builds(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path().join("target/vmbell-check")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Removes the variables that the cargo that runs this test has set for its own build.
    fn clean(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let build = [
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET_DIR",
            "CARGO_BUILD_BUILD_DIR",
            "CARGO_BUILD_TARGET",
        ];
        let compiler = [
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
        ];
        let checker = ["VMBELL_CHECK", "VMBELL_CHECK_HOOKS"];
        for name in build.iter().chain(&compiler).chain(&checker) {
            command.env_remove(name);
        }
        command
            .env("CARGO", env!("CARGO"))
            .env("CARGO_NET_OFFLINE", "true")
            // No build here is debugged, and few are built again.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .current_dir(self.path());
        command
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            fs::create_dir(to.join(name)).unwrap();
            copy(&path, &to.join(name));
        } else {
            // Manifests with their real name would be packages of this repository.
            let name = if name == "manifest.toml" {
                "Cargo.toml".as_ref()
            } else {
                name
            };
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Runs `command`, which has to succeed. Returns its standard error.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}:\n{}", text(&output));
    stderr(&output)
}

/// Runs `command`, which has to end with `status`. Returns the one line that it prints.
#[track_caller]
pub fn fail(command: &mut Command, status: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(status),
        "{command:?}:\n{}",
        text(&output)
    );
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{command:?}:\n{message}");
    message
        .strip_prefix("error: ")
        .expect("an error")
        .trim_end()
        .to_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        stderr(output)
    )
}

/// The crates that cargo says it has compiled, sorted.
pub fn compiled(stderr: &str) -> Vec<&str> {
    let lines = stderr
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Compiling "));
    let mut names: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names
}
