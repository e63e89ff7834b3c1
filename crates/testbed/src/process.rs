//! Sandboxes as the rest of the host sees them.
#![allow(unsafe_code)]

use std::fs;
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use vmbell_hypervisor::{Hypervisor, Vm, VmConfig};

use crate::{await_that, chain};

/// Reads the fields of `/proc/PID/stat` after the name: state, parent and so on.
pub fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = text.rsplit_once(')')?.1;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Whether a process exists, zombies included.
pub fn exists(pid: i32) -> bool {
    stat(pid).is_some()
}

/// All processes, zombies included.
pub fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether a process exists and has this parent.
pub fn is_child_of(pid: i32, parent: i32) -> bool {
    stat(pid).is_some_and(|stat| stat[1] == parent.to_string())
}

/// The children of a process, zombies included.
pub fn children_of(parent: i32) -> Vec<i32> {
    let mut children = processes();
    children.retain(|pid| is_child_of(*pid, parent));
    children
}

/// Lists the threads of a process, in the order in which they were created.
pub fn tasks(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut tasks: Vec<_> = entries
        .map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    tasks.sort_unstable();
    tasks
}

/// Signals a process.
pub fn signal(pid: i32, signal: Signal) -> rustix::io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    kill_process(pid, signal)
}

/// Stops a process. After the return, each of its threads has stopped.
pub fn stop(pid: i32) {
    signal(pid, Signal::STOP).unwrap();
    let has_stopped = |thread| stat(thread).is_none_or(|stat| stat[0] == "T");
    await_that("a process to stop", || {
        tasks(pid).into_iter().all(has_stopped)
    });
}

/// Whether a thread of a process sleeps in `write`, as a vCPU's thread does on a full eventfd.
pub fn sleeps_in_write(pid: i32) -> bool {
    tasks(pid).into_iter().any(|thread| {
        let call = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"));
        // The system call's number in decimal, or `running`.
        call.is_ok_and(|call| call.starts_with("1 "))
    })
}

/// Set in a process that runs one test alone.
const ALONE: &str = "VMBELL_TEST_ALONE";

/// Runs the calling test in its own process. This is for tests that look at everything in their process, because other
/// threads of the test program run other tests.
pub fn alone(body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let thread = std::thread::current();
    let name = thread.name().expect("a test's thread has its name");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "{name} did not run: {text}");
}

/// Creates a guest, and returns it with its sandbox process.
pub fn with_sandbox<H: Hypervisor>(hypervisor: &H, config: &VmConfig) -> (Arc<dyn Vm>, i32) {
    let vm = hypervisor
        .create_vm(config)
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    let processes = vm.measure().processes();
    let [pid] = processes[..] else {
        panic!("a guest has one sandbox, not {processes:?}")
    };
    (vm, pid.cast_signed())
}

/// Waits until a process is gone, zombies included.
pub fn await_gone(pid: i32) {
    await_that("a process to be gone", || !exists(pid));
}
