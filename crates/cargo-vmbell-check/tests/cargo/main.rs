//! `cargo vmbell-check` as cargo starts it, in a workspace outside this one.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, clippy::tests_outside_test_module)]

mod builds;
mod errors;
mod support;
