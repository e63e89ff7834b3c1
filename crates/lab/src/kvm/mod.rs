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

use crate::board::CpuVendor;
use crate::own_sources::{OwnSources, own_sources};

pub use changes::KvmChanges;
pub(crate) use changes::ReadChanges;
pub(crate) use parameters::SHARED_MODULE;
pub use parameters::{KvmParameter, kvm_parameters};
pub(crate) use tools::{Tools, run_in_place, write_programs};
pub(crate) use tree::KvmTree;

/// What is built for the CPUs of a vendor: the modules that L1 loads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VendorBuild {
    modules: [&'static str; 2],
    /// The source of only the other vendor's module.
    left_out: &'static str,
    /// The argument of `make` that leaves out that module.
    without: &'static str,
    virtualization: &'static str,
}

impl VendorBuild {
    pub(crate) const fn of(vendor: CpuVendor) -> Self {
        match vendor {
            CpuVendor::Amd => Self {
                modules: ["kvm", "kvm-amd"],
                left_out: "arch/x86/kvm/vmx",
                without: "CONFIG_KVM_INTEL=",
                virtualization: "AMD's SVM",
            },
            CpuVendor::Intel => Self {
                modules: ["kvm", "kvm-intel"],
                left_out: "arch/x86/kvm/svm",
                without: "CONFIG_KVM_AMD=",
                virtualization: "Intel's VMX",
            },
        }
    }
}

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
