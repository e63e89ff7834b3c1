//! The trap stub of the usermode engine, and the memory that it shares with the monitor.
//!
//! The crate is compiled twice. As a library it gives the monitor the layout, the doorbell table's reader, the
//! decoder, the patches of code, the local APIC, the host's side of PV EOI and, with the feature `elf`, the finished
//! stub in `ELF`. With `--cfg vmbell_stub_elf` (see `build.rs`) it is that stub, and also has the modules in `elf/`.
// The models, in loom's build, use std.
#![cfg_attr(not(loom), no_std)]
#![cfg_attr(vmbell_stub_elf, no_main)]

#[cfg(not(vmbell_stub_elf))]
extern crate alloc;

pub mod decode;
pub mod event;
pub mod ioapic;
pub mod lapic;
pub mod layout;
pub mod patches;
pub mod pv_eoi;
pub mod section;
mod sync;
pub mod table;
pub mod trampoline;
pub mod vcpu_mode;

#[cfg(vmbell_stub_elf)]
mod elf;

#[cfg(all(test, loom))]
mod models;

/// The stub as a static x86-64 executable, linked at [`layout::STUB_BASE`].
#[cfg(all(feature = "elf", not(vmbell_stub_elf)))]
pub const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub.elf"));
