//! Kernel images and modules, prepared for a quick boot.
//!
//! A distribution's `bzImage` unpacks itself, which is slow under emulation, so the ELF `vmlinux`
//! is taken out of it once (boot protocol: Documentation/arch/x86/boot.rst, `payload_offset`) and
//! booted by its PVH entry. arm64's Image does not unpack itself. Modules are unpacked for the same reason, and put in
//! an order in which they can be loaded one after another.

mod bzimage;
mod image;
mod modules;
mod unpack;

pub use bzimage::BzImage;
pub(crate) use bzimage::not_a_kernel;
pub use image::KernelImage;
pub(crate) use modules::no_module;
pub use modules::{KernelModule, ModuleTree};
pub use unpack::unpack;
