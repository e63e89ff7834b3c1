//! Devices of the host that a guest drives itself.
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

mod passthrough;
mod pci;
