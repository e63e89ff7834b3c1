//! Why BPF programs cannot count.

use std::io;

use super::metric::Metric;
use crate::btf::BtfError;

/// Why the source, or one of its programs, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel has no BTF, or lacks a function.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The kernel does not allow it.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// KVM is not loaded.
    #[error("kvm is not loaded")]
    NoKvm,
    /// The verifier refused a program.
    #[error("this kernel refuses the program: {log}")]
    Refused {
        /// The error.
        source: io::Error,
        /// The end of the verifier's message.
        log: String,
    },
    /// A requested metric does not exist on this architecture.
    #[error("{} cannot be counted on {}", .0.name(), std::env::consts::ARCH)]
    Architecture(Metric),
    /// A requested metric cannot be counted.
    #[error("{} cannot be counted", metric.name())]
    Optional {
        /// The metric.
        metric: Metric,
        /// Why not.
        source: Box<Self>,
    },
    /// A system call failed.
    #[error("{what}")]
    System {
        /// What the call was for.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> BpfError {
    move |source| BpfError::System { what, source }
}
