//! A guest image that measures, from inside, what notification costs under any VMM.
//!
//! The crate is compiled twice. As a library it has the finished image, in `ELF`, and the parsers that the image uses
//! for the tables that a VMM gives its guest. A hostile VMM may have written those tables: the parsers neither panic
//! nor loop without a bound. With `--cfg vmbell_probe_elf` (see `build.rs`) it is the image, and also has the modules
//! in `elf/`.
#![no_std]
#![cfg_attr(vmbell_probe_elf, no_main)]

#[cfg(not(vmbell_probe_elf))]
extern crate alloc;

pub mod acpi;
#[cfg(not(vmbell_probe_elf))]
mod bzimage;
pub mod clock;
pub mod cmdline;
pub mod json;
pub mod names;
pub mod number;
pub mod pci;

#[cfg(vmbell_probe_elf)]
mod elf;

/// The image: an ELF64 that boots by PVH, by Linux's 64-bit entry and by Multiboot 1. Empty if it could not be built:
/// on all hosts except x86-64 Linux.
#[cfg(not(vmbell_probe_elf))]
pub const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.elf"));

/// The image as a bzImage, for VMMs that do not boot an ELF. Empty where `ELF` is.
#[cfg(not(vmbell_probe_elf))]
pub fn bzimage() -> alloc::vec::Vec<u8> {
    bzimage::from_elf(ELF).unwrap_or_default()
}
