//! The first program of a Linux in the lab, and what it shares with the host: the layouts of window and archives.
//!
//! The crate is compiled twice. As a library it gives the lab [`window`] and the finished loader, in `ELF`. With `--cfg
//! vmbell_loader_elf` (see `build.rs`) it is that loader, and also has the modules in `elf/`. The loader mounts the
//! kernel's file systems, loads modules and stops the machine by a write to its panic device. The machine continues
//! after that write, at once or when it is started from the saved state: it unpacks the archive in the window and
//! becomes `vmbell`. If another Linux is to run inside, `vmbell` is started first, and runs the loader once more when
//! that Linux is ready. A machine without a window is not stopped: the files of the run are in its initramfs.
#![no_std]
#![cfg_attr(vmbell_loader_elf, no_main)]

pub mod newc;
pub mod window;

#[cfg(vmbell_loader_elf)]
mod elf;

/// The loader as a static executable for this crate's target. The bytes are empty except on Linux on x86-64 and arm64.
#[cfg(not(vmbell_loader_elf))]
pub const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/loader.elf"));
