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

use crate::FileError;
use std::io;
use std::path::PathBuf;

pub use bzimage::BzImage;
pub use image::KernelImage;
pub use modules::{Module, ModuleTree};
pub use unpack::unpack;

/// A kernel image or a module that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not a kernel of a known form.
    #[error("{} is not a kernel: neither {wanted}", path.display())]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// The forms that a kernel for this architecture may have.
        wanted: &'static str,
    },
    /// The kernel is for another architecture.
    #[error("{} is a kernel for {found}, and L1 is {wanted}", path.display())]
    Architecture {
        /// The file.
        path: PathBuf,
        /// The architecture in the file's header.
        found: String,
        /// The architecture of the machine.
        wanted: &'static str,
    },
    /// The header of a compressed kernel points outside the file.
    #[error("{} is {kind} of {length} bytes whose header says that its kernel is at {offset}, {size} bytes long", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The form of the kernel.
        kind: &'static str,
        /// The file's length in bytes.
        length: usize,
        /// Offset of the compressed kernel in bytes.
        offset: usize,
        /// Length of the compressed kernel in bytes.
        size: usize,
    },
    /// The data is in an unknown format, or broken.
    #[error("cannot decompress the {what} in {}", path.display())]
    Decompress {
        /// "kernel" or "module".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The folder has no modules for this kernel.
    #[error("no modules of Linux {version} in {}: name their folder with --modules, or `none` if KVM is built in", folder.display())]
    NoModules {
        /// The kernel's version.
        version: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// A module is neither in the folder nor built in.
    #[error("module {name} is not in {}", folder.display())]
    NoModule {
        /// The module's name.
        name: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// The module is not an ELF object.
    #[error("module {} is not an ELF object", path.display())]
    BadModule {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: object::Error,
    },
}
