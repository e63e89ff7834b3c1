//! The rows of `vmbell bench` for the creation of guests, and the memory that they take.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::common::{quick, vmbell};
use serde_json::Value;

/// The most that a guest and its registrations may take of the VMM's memory, beside the guest's RAM.
const MOST: u64 = 5 << 20;

/// Measures the rows by this program, as this user if there is one.
fn rows(program: impl AsRef<OsStr>, user: Option<u32>) -> Vec<Value> {
    let mut command = Command::new(program);
    command.args(quick(&["--only", "--backend", "usermode", "vm-*"]).get_args());
    command.args(["--export-json", "-"]);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{report:#}");
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{report:#}");
    rows.clone()
}

#[test]
fn creation_is_measured_for_every_user_and_its_memory_for_root() {
    const NOBODY: u32 = 65534;
    // A place that everyone can reach.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("vmbell");
    // By another process: what this one has open for writing, a child that another test starts at the moment has too, and then
    // nobody can execute it.
    let mut copy = Command::new("cp");
    copy.arg(vmbell(&[]).get_program()).arg(&program);
    assert!(copy.status().unwrap().success());
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        for row in rows(&program, None) {
            let memory = row["memory_bytes"].as_u64();
            assert!(memory.is_some_and(|bytes| bytes <= MOST), "{row:#}");
        }
    }
    for row in rows(&program, is_root.then_some(NOBODY)) {
        assert_eq!(row["memory_bytes"], Value::Null, "{row:#}");
    }
}
