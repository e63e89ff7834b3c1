//! Guests on every backend: which of their writes ring doorbells, why they exit, and how they are interrupted. All
//! tests are in one program, because each test program is compiled and linked separately.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(
        dead_code,
        unused_imports,
        reason = "the bodies of the usermode backend"
    )
)]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[cfg(target_arch = "aarch64")]
mod arm64;
mod device_memory;
mod doorbell;
mod exits;
mod interrupts;
