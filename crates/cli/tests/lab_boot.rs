//! `vmbell lab` with real boots; `cargo xtask lab` runs these tests, those of a module in one process.
//!
//! Nothing is skipped here: without a prepared cache and without the network these tests fail.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

mod boots;

#[path = "lab_boot/advised.rs"]
mod advised;
#[path = "lab_boot/assigned.rs"]
mod assigned;
#[path = "lab_boot/bench.rs"]
mod bench;
#[path = "lab_boot/copies.rs"]
mod copies;
#[path = "lab_boot/depth.rs"]
mod depth;
#[path = "lab_boot/devices.rs"]
mod devices;
#[path = "lab_boot/ends.rs"]
mod ends;
#[path = "lab_boot/exits.rs"]
mod exits;
#[path = "lab_boot/gate.rs"]
mod gate;
#[path = "lab_boot/kernels.rs"]
mod kernels;
#[path = "lab_boot/kvm_ioeventfd.rs"]
mod kvm_ioeventfd;
#[path = "lab_boot/linux.rs"]
mod linux;
#[path = "lab_boot/net.rs"]
mod net;
#[path = "lab_boot/program.rs"]
mod program;
#[path = "lab_boot/saved.rs"]
mod saved;
#[path = "lab_boot/selftests.rs"]
mod selftests;
#[path = "lab_boot/top.rs"]
mod top;
#[path = "lab_boot/top_names.rs"]
mod top_names;
#[path = "lab_boot/top_screen.rs"]
mod top_screen;
#[path = "lab_boot/top_trouble.rs"]
mod top_trouble;
#[path = "lab_boot/top_vmms.rs"]
mod top_vmms;
#[path = "lab_boot/vmms.rs"]
mod vmms;

use std::path::{Path, PathBuf};

use vmbell_lab::board::{Board, X86_64};

const BOARD: &Board = &X86_64;
/// Parameters of Linux as a guest. QEMU 7.2's SVM switches vector state off at exits: docs/qemu-bugs.md.
const PARAMETERS: &str = "noxsave";

/// The command for L1.
fn vmbell() -> PathBuf {
    boots::host_vmbell().into()
}

/// Where cargo puts the examples for L1.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_vmbell")).with_file_name("examples")
}
