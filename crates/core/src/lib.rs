//! What vmbell's crates share, without std: data with a fixed layout that threads and processes share, and the steps
//! that change it. Each step says which thread may take it.
//!
//! All-zero bytes are a valid initial value of each type with atomics. The memory may be shared with an untrusted
//! sandbox: whatever a step reads from it, the step does not panic, allocate memory or loop forever. The models in
//! `models/` explore the steps with loom.
//!
//! `vmbell-stub` compiles the same source into the program that runs in the sandbox of the usermode backend, with
//! `--cfg vmbell_stub_elf`.
// In loom's build, the models use std.
#![cfg_attr(not(loom), no_std)]

#[cfg(not(vmbell_stub_elf))]
extern crate alloc;

pub mod addresses;
pub mod event;
pub mod ioapic;
pub mod lapic;
pub mod pv_eoi;
pub mod sync;
pub mod table;
pub mod vcpu_mode;

#[cfg(all(test, loom))]
mod models;

/// The root file of this crate, from which a build script can compile the crate.
#[cfg(feature = "source")]
pub const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
