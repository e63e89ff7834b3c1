//! KVM's modules, built from the kernel's own source with the user's changes.
//!
//! The compiler, headers and source come from packages of the kernel's distribution, of exactly the kernel's version,
//! so a build without changes gives the package's code. [`tools`] unpacks them into a cache entry from which the
//! programs run, [`changes`] reads the user's changes, and [`tree`] builds them in a folder that is kept, so that a
//! changed patch rebuilds only what it affects. Our module ([`IOEVENTFD`]) is built with the same packages.

mod changes;
mod parameters;
mod selftests;
mod tools;
mod tree;

use crate::own_sources::{OwnSources, own_sources};

pub use changes::KvmChanges;
pub(crate) use changes::ReadChanges;
pub use parameters::{KvmParameter, kvm_parameters};
pub(crate) use tools::{Tools, run_in_place, write_programs};
pub(crate) use tree::KvmTree;

/// The modules to build: those that L1 loads, whose CPU has AMD's SVM.
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
