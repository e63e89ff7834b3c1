//! Machines as a VMM makes them: the PC with the images that it boots, virtio on MMIO registers, and the library in
//! your own VMM. All tests are one program, because each program is compiled and linked separately.
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

mod embed;
#[cfg(target_arch = "x86_64")]
mod pc;
mod virtio_mmio;
