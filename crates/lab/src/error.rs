//! The error of the lab: any error of one of its parts.

use super::apt::AptError;
use super::boot::BootError;
use super::cache::CacheError;
use super::device_tree::TreeError;
use super::initramfs::InitramfsError;
use super::kernel::KernelError;
use super::out_of_tree::ModulesError;
use super::qemu::QemuError;

/// An error of one of the lab's parts.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The lab does not know the host's architecture.
    #[error("the lab does not run on {arch}, only on x86_64 and aarch64")]
    NoHost {
        /// This process's architecture.
        arch: &'static str,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Packages cannot be downloaded.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// A kernel or a module cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Modules cannot be built.
    #[error(transparent)]
    Modules(#[from] ModulesError),
    /// L1's file tree cannot be made.
    #[error(transparent)]
    Initramfs(#[from] InitramfsError),
    /// The kernel lacks modules that assigning a device needs.
    #[error("this kernel cannot assign {device} to a guest")]
    Device {
        /// The device's name.
        device: &'static str,
        /// Which module it lacks.
        source: KernelError,
    },
    /// QEMU's device tree cannot be edited.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// QEMU cannot be used.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// The boot failed.
    #[error(transparent)]
    Boot(#[from] BootError),
}
