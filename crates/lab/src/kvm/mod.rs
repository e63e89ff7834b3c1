//! KVM's modules, built from the kernel's own source with changes of the user's.
//!
//! The compiler, the headers and the source are packages of the kernel's distribution, of exactly its version, so that a
//! build without changes has the package's code. [`tools`] unpacks them into a cache entry and makes the programs run
//! from there, [`changes`] reads the user's changes, and [`tree`] builds them in a folder that is kept, so that a changed patch
//! builds only what it changes. A module of ours ([`IOEVENTFD`]) is built with the same.

mod changes;
mod tools;
mod tree;

use crate::FileError;
use crate::own_sources::{OwnSources, own_sources};
use std::path::PathBuf;

pub(crate) use changes::Changes;
pub use changes::KvmChanges;
pub(crate) use tools::{Tools, run_in_place};
pub(crate) use tree::Tree;

/// The modules that are built: those that L1 loads, whose CPU has AMD's SVM.
pub(crate) const MODULES: [&str; 2] = ["kvm", "kvm-amd"];
/// Our own module that takes over KVM's ioeventfds, `kernel/kvm-ioeventfd`, and its sources.
pub(crate) const IOEVENTFD: &str = "kvm_ioeventfd";
pub(crate) const IOEVENTFD_SOURCES: OwnSources = own_sources!(
    "kvm-ioeventfd":
    "Kbuild",
    "group.c",
    "hook.c",
    "internal.h",
    "kvm_ioeventfd.h",
    "main.c",
    "ring.c",
    "write.c",
);

/// Why KVM cannot be built with the user's changes.
#[derive(Debug, thiserror::Error)]
pub enum KvmError {
    /// KVM is not a module there.
    #[error(
        "{arch}'s kernels have KVM built in, so the lab cannot replace it: --kvm-patch, --kvm-source and --kvm-ioeventfd are for x86_64"
    )]
    BuiltIn {
        /// The architecture.
        arch: &'static str,
    },
    /// The kernel is not one of Debian's packages.
    #[error(
        "cannot build KVM or a module of it for {kernel}, which is not a kernel of Debian's archive: choose one with --kernel debian:6.12"
    )]
    NotDebians {
        /// The kernel.
        kernel: String,
    },
    /// The archive does not have what the build needs.
    #[error("cannot build KVM for Linux {release}: Debian's archive has no {what} of it")]
    Gone {
        /// The kernel's release.
        release: String,
        /// What is missing.
        what: &'static str,
        /// What the package client says.
        source: super::apt::AptError,
    },
    /// The file is not a patch.
    #[error("{} is not a patch: it has no changes in the unified format", patch.display())]
    NotAPatch {
        /// The file.
        patch: PathBuf,
    },
    /// The patch changes what is not built.
    #[error(
        "{} changes {file}, which is in the kernel's image; only KVM's modules are built: arch/x86/kvm, virt/kvm and headers",
        patch.display()
    )]
    Outside {
        /// The patch.
        patch: PathBuf,
        /// The file that it changes.
        file: String,
    },
    /// The patch is not one for `patch -p1`.
    #[error(
        "{} names {file} without a folder before it, such as a/ and b/: make it with git diff",
        patch.display()
    )]
    NoPrefix {
        /// The patch.
        patch: PathBuf,
        /// The file, as the patch names it.
        file: String,
    },
    /// No patch changes what is built.
    #[error(
        "{} changes {file}, and no patch changes what the lab builds: kvm and kvm-amd, for a CPU with AMD's SVM",
        patch.display()
    )]
    NotBuilt {
        /// The patch.
        patch: PathBuf,
        /// A file that it changes.
        file: String,
    },
    /// The patch does not apply.
    #[error("{} does not apply to Linux {release}: {said}", patch.display())]
    DoesNotApply {
        /// The patch.
        patch: PathBuf,
        /// The kernel's release.
        release: String,
        /// What `patch` says.
        said: String,
    },
    /// The folder is not a kernel's source.
    #[error("{} is not a kernel's source: it has no {missing}", folder.display())]
    NotASource {
        /// The folder.
        folder: PathBuf,
        /// A folder that it should have.
        missing: &'static str,
    },
    /// The source is that of another kernel.
    #[error("{} is the source of Linux {found}, and the kernel is Linux {release}", folder.display())]
    OtherVersion {
        /// The folder.
        folder: PathBuf,
        /// The version in its Makefile.
        found: String,
        /// The kernel's release.
        release: String,
    },
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}
