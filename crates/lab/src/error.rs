//! Everything that can go wrong in the lab.

use super::apt::AptError;
use super::boot::BootError;
use super::cache::CacheError;
use super::initramfs::InitramfsError;
use super::kernel::KernelError;
use super::qemu::QemuError;

/// An error of one of the lab's parts.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No board for this architecture.
    #[error("the lab has no machine for {arch}")]
    NoBoard {
        /// This process's architecture.
        arch: &'static str,
    },
    /// The cache folder.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The packages.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// The kernel or a module.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// L1's file tree.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// QEMU.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The boot.
    #[error(transparent)]
    Boot(#[from] BootError),
}
