//! The PC as images see it: their own bytes, on a real CPU; and several vCPUs of any backend.
// Empty on other architectures: these tests are about a PC.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod board;
mod edu;
mod ends;
mod image;
mod init;
mod kernel;
mod micro;
mod nic;
mod pc_testdev;
mod pci;
mod player;
mod probe_image;
mod sleep;
mod smp;
mod testdev;
mod together;
mod virtio;
