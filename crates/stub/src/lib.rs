//! The trap stub of the usermode engine, and the memory that it shares with the monitor.
//!
//! The crate is compiled twice. As a library, it gives the monitor the layout, the decoder, the code patches and, in
//! `ELF`, the finished stub. With `--cfg vmbell_stub_elf` (see `build.rs`) it is that stub, and then also has the
//! modules in `elf/`. The logic of interrupts and doorbells is in `vmbell-core`.
#![no_std]
#![cfg_attr(vmbell_stub_elf, no_main)]

pub mod decode;
pub mod layout;
pub mod patches;
pub mod section;
pub mod trampoline;

#[cfg(vmbell_stub_elf)]
mod elf;

/// The stub as a static x86-64 executable, linked at [`layout::STUB_BASE`].
#[cfg(not(vmbell_stub_elf))]
pub const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub.elf"));
