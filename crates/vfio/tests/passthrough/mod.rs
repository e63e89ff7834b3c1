//! Devices that a guest drives itself. On x86-64, a double of a device is tested on both backends. In the lab, the
//! devices are real: a PCI device on x86-64, a platform device on arm64. A test whose name begins with `row_` tests a
//! row of the list of VFIO's edge cases; several tests may cover one row, each as far as its device can.
#![allow(
    clippy::cast_possible_truncation,
    reason = "what a test puts into a register fits"
)]

mod holdings;
mod host;

#[cfg(target_arch = "x86_64")]
mod double;
#[cfg(target_arch = "x86_64")]
mod doubled;
#[cfg(target_arch = "x86_64")]
mod guest;
#[cfg(target_arch = "aarch64")]
mod platform;
#[cfg(target_arch = "x86_64")]
mod real;
