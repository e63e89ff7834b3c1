//! Entries of the suites on real backends, in one program, because each program is compiled and linked separately.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

mod bare_loops;
mod endless_rows;
// These tests use the usermode backend, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
mod exits;
#[cfg(target_arch = "x86_64")]
mod first_rows;
mod lacking;
mod many_vcpus;
mod measure;
#[cfg(target_arch = "x86_64")]
mod stat;
