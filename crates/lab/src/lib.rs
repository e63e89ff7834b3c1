//! Real KVM for machines that have none: a stock Linux inside QEMU's TCG, and a program inside it.
//!
//! L0 is this host, L1 the Linux that runs in QEMU and has a real `/dev/kvm`, L2 a guest of the program
//! that runs in L1. L1 may have another architecture than this host. [`Provision`] finds or prepares QEMU and a kernel in the
//! cache, without root; [`Lab::run`] boots L1, runs a program of this host in it with its
//! libraries, environment and working directory, and returns how the program ended.
//!
//! Times taken in L1 say nothing about hardware. What counts there is behaviour, exit counts and,
//! with [`boot::Mode::Deterministic`], instructions.

pub mod apt;
pub mod arch;
pub mod board;
pub mod boot;
pub mod cache;
pub mod debian;
pub mod device;
pub mod device_tree;
pub mod init;
pub mod initramfs;
pub mod job;
pub mod kernel;
pub mod out_of_tree;
pub mod qemu;
pub mod saved;
pub mod selftests;
pub mod spin;

mod begin;
mod complaints;
mod debug_kernel;
mod file_error;
mod files;
mod first;
mod kvm;
mod nest;
mod own_sources;
mod payload;
mod prepare;
mod progress;
mod provision;
#[cfg(test)]
mod read_only;
mod record;
mod run;
mod tree;
mod unfinished;

use apt::AptError;
use boot::{BootError, WINDOW};
use cache::CacheError;
use debian::DebianError;
use device_tree::TreeError;
use initramfs::InitramfsError;
use kernel::KernelError;
use out_of_tree::ModulesError;
use qemu::QemuError;
use selftests::SelftestsError;

pub use begin::Began;
pub use debug_kernel::DebugKernelError;
pub use file_error::FileError;
pub use files::Files;
pub use kvm::{KvmChanges, KvmError};
pub use payload::Task;
pub use prepare::Kernel;
pub use progress::Progress;
pub use provision::{KernelChoice, Netperf, PackageRecipe, Provision, ProvisionKind, Recipe};
pub use record::record;
pub use run::{Lab, Outcome};
pub use unfinished::abandon;

/// An error of one of the lab's parts.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The lab does not know the host's architecture.
    #[error("the lab does not run on {arch}, only on x86_64 and aarch64")]
    NoHost {
        /// This process's architecture.
        arch: &'static str,
    },
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Packages cannot be downloaded.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// Debian has no such kernel.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// A kernel or a module cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Modules cannot be built.
    #[error(transparent)]
    Modules(#[from] ModulesError),
    /// KVM cannot be built with the user's changes.
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// A kernel that checks itself cannot be built.
    #[error(transparent)]
    DebugKernel(#[from] DebugKernelError),
    /// The selftests cannot be built.
    #[error(transparent)]
    Selftests(#[from] SelftestsError),
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
    /// A Linux inside L1 would need more memory than a guest of `vmbell run` can have.
    #[error("L{depth} would need {} MiB of memory, and a guest of `vmbell run` has at most 3072: use less --memory", memory >> 20)]
    NestedMemory {
        /// Which Linux.
        depth: u32,
        /// Its memory in bytes.
        memory: u64,
    },
    /// The files of a run do not fit into the memory of the Linux that is to have them.
    #[error("L{depth}: out of memory: its files need {} MiB, and {} MiB of its {} MiB are available for files: use --memory {}M or more",
            length >> 20, room >> 20, memory >> 20, enough >> 20)]
    NoRoom {
        /// Which Linux.
        depth: u32,
        /// The files' size in bytes.
        length: u64,
        /// How many bytes its files may have.
        room: u64,
        /// The memory in bytes.
        memory: u64,
        /// A memory that is enough, in bytes.
        enough: u64,
    },
    /// The files of a run are larger than the window through which L1 gets them.
    #[error("the program and its files have {} MiB, and at most {} MiB go into the lab", length >> 20, WINDOW >> 20)]
    TooMuch {
        /// Their size in bytes.
        length: u64,
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
