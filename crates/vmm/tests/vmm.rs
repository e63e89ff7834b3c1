//! Guests on every backend, and the devices and boards that they see: one program, because all of them share the harness,
//! and each program is compiled and linked separately.
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

mod harness;

#[cfg(target_arch = "aarch64")]
mod arm64;
// They are about the usermode backend, which x86-64 alone has.
#[cfg(target_arch = "x86_64")]
mod attack;
mod device_memory;
mod doorbell;
mod embed;
mod exits;
mod interrupts;
mod passthrough;
#[cfg(target_arch = "x86_64")]
mod pc;
mod virtio_mmio;
