//! `vmbell lab` with real boots. `cargo xtask lab` runs the tests of each module in one process.
//!
//! No test is skipped: without a prepared cache and without the network, they fail.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

#[path = "../boots/mod.rs"]
mod boots;

mod assigned;
mod bench;
mod copies;
mod depth;
mod devices;
mod ends;
mod exits;
mod gate;
mod intel;
mod kernels;
mod kvm_ioeventfd;
mod linux;
mod net;
mod program;
mod saved;
mod selftests;
mod sweep;
mod top;
mod top_names;
mod top_screen;
mod top_trouble;
mod top_vmms;
mod vmms;

use std::path::{Path, PathBuf};

use vmbell_lab::board::{LabBoard, X86_64};

const BOARD: &LabBoard = &X86_64;
/// Parameters of Linux as a guest. QEMU 7.2's SVM switches vector state off at exits: docs/emulator-bugs.md.
const PARAMETERS: &str = "noxsave";

/// The command for L1.
fn vmbell() -> PathBuf {
    boots::host_vmbell().into()
}

/// Where cargo puts the examples for L1.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_vmbell")).with_file_name("examples")
}
