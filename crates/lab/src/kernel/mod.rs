//! Kernel images and modules, prepared for a fast boot.
//!
//! A distribution's `bzImage` decompresses itself, which is slow under emulation. So the ELF `vmlinux` is extracted
//! once (boot protocol: Documentation/arch/x86/boot.rst, `payload_offset`) and booted through its PVH entry. arm64's
//! Image does not decompress itself. Modules are decompressed for the same reason, and sorted so that they can be
//! loaded one after another.

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
