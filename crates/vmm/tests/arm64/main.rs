//! arm64 on KVM: its exits, doorbells, interrupt controllers and ends, with its own guest programs.
#![cfg(target_arch = "aarch64")]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod accesses;
mod doorbells;
mod ends;
mod exits;
mod interrupts;
mod mmu_off;
mod programs;
mod refused;
mod secondary;
mod taker;
