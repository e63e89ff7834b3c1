//! The usermode backend: its stub's code, what only this backend does, and guests that attack it. One test program, so
//! that other tests run while an attack waits for a limit.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

mod attack;
mod code;
mod doorbell;
mod interrupts;
