//! What the fuzz targets do with their bytes, on the calling thread: a panic is a failure. The programs of `fuzz/` run
//! them under libFuzzer, and `tests/fuzz_targets.rs` runs them for a limited time with stable Rust.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "an error that is not expected is a failure"
)]

pub mod device;
pub mod device_tree;
pub mod driver;
pub mod image;
mod input;
pub mod pci;
pub mod state;
pub mod tables;
pub mod vfio;
pub mod virtio;
