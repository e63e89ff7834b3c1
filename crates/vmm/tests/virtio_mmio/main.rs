//! A virtqueue that a guest drives, served in every way: what it sends comes back as it should, and
//! no exit is paid that the way does not have.
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

#[path = "../harness/mod.rs"]
mod harness;

mod budget;
mod interrupt;
mod roundtrip;
