//! Why a guest leaves, with what, and that it goes on as if it had not.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod control;
mod counts;
mod memory;
mod ports;
mod state;
mod vcpus;
