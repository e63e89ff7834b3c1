//! The library as a VMM takes it in: the choice of a backend, memory of the VMM's own, and the examples.
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

// Two backends, and examples that choose between them.
#[cfg(target_arch = "x86_64")]
mod backend;
#[cfg(target_arch = "x86_64")]
mod examples;
mod own_memory;
