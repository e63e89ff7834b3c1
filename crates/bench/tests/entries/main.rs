//! Entries of the suites on real backends: one program, because each is compiled and linked separately.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

mod bare_loops;
mod endless_rows;
// They are about the usermode backend, which x86-64 alone has.
#[cfg(target_arch = "x86_64")]
mod first_rows;
mod many_vcpus;
#[cfg(target_arch = "x86_64")]
mod stat;
