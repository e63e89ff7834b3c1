//! Doorbells rung by a real guest: which writes ring, which leave the guest, and what removal means.
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

mod abi;
// No access to a device crosses a page on arm64: it has to be aligned.
#[cfg(target_arch = "x86_64")]
mod crossing;
mod delivery;
mod groups;
mod limits;
mod page;
mod payload;
mod places;
mod race;
mod removal;
mod rules;
mod saturation;
#[cfg(target_arch = "x86_64")]
mod stores;
#[cfg(target_arch = "x86_64")]
mod taken_back;
