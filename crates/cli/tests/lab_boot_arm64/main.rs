//! Boots of the lab's arm64 machine, each taking a few seconds of CPU. `cargo xtask lab --arch aarch64` runs the tests
//! of each module in one process; they need a `vmbell` built for arm64.
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

#[path = "../boots/mod.rs"]
mod boots;

mod depth;
mod flat;
mod gicv2;
mod linux;
mod program;
mod saved;
mod top;

use std::path::PathBuf;

use vmbell_lab::board::{AARCH64, LabBoard};

const BOARD: &LabBoard = &AARCH64;
/// Parameters of Linux as a guest.
const PARAMETERS: &str = "";

/// The command for L1, where the lab looks for it. A session runs in this package's folder.
fn vmbell() -> PathBuf {
    let built = "../../target/aarch64-unknown-linux-musl/release/vmbell";
    std::env::var_os("VMBELL_AARCH64").map_or_else(|| built.into(), PathBuf::from)
}

/// Where cargo puts the examples for L1.
fn examples() -> PathBuf {
    vmbell().with_file_name("examples")
}
