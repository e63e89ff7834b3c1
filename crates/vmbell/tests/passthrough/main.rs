//! Devices that a guest drives itself: with a double of a device on both backends, and in the lab with a real one.
//! A test whose name begins with `row_` shows a row of the list of edge cases that VFIO's interface has; several may show
//! the same, each as its device can.
// Empty on other architectures: these tests are about PCI, which an arm64 guest does not have here.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod alone;
mod double;
mod guest;
mod host;
mod real;

mod doubled;
