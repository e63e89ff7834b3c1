//! `vmbell lab` from outside, in cases that need neither the network nor a boot.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

mod ends;
mod inner;
mod prepare;
mod progress;
mod selftests;
#[path = "../signals/mod.rs"]
mod signals;
mod starts;
mod support;
#[path = "../terminal/mod.rs"]
mod terminal;
#[path = "../../../vmm/tests/harness/wait.rs"]
mod wait;
