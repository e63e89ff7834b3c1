//! The `vm-*` rows of `vmbell bench`, and their memory.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::common::{quick, vmbell};
use serde_json::Value;

/// The maximum memory that a VMM may need for a guest in addition to the guest's RAM: 5 MiB.
const MOST: u64 = 5 << 20;

/// Measures the rows with this program, as this user if given.
fn rows(program: impl AsRef<OsStr>, user: Option<u32>) -> Vec<Value> {
    let mut command = Command::new(program);
    command.args(quick("--only --backend usermode vm-*").get_args());
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
    // A folder that everyone can read.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("vmbell");
    // `cp`, not fs::copy(): a child that another test forks meanwhile would inherit the descriptor that is open for
    // writing, and execve() fails with ETXTBSY while any such descriptor is open.
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
