//! Why a source is not used, and why nothing can be shown.

use std::io;

use crate::bpf::BpfError;
use crate::counters::CountersError;

/// Why the source `bpf` is not used.
#[derive(Debug, thiserror::Error)]
pub enum NoBpf {
    /// The source cannot be used here.
    #[error(transparent)]
    Missing(#[from] BpfError),
    /// The other source was asked for.
    #[error("not asked for")]
    NotAsked,
}

/// Why the source `counters` is not used.
#[derive(Debug, thiserror::Error)]
pub enum NoCounters {
    /// The source cannot be used here.
    #[error(transparent)]
    Missing(#[from] CountersError),
    /// The other source was asked for.
    #[error("not asked for")]
    NotAsked,
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The source that was asked for cannot be used.
    #[error("the source bpf cannot be used")]
    NoBpf(#[source] NoBpf),
    /// The source that was asked for cannot be used.
    #[error("the source counters cannot be used")]
    NoCounters(#[source] NoCounters),
    /// No source can be used.
    #[error(
        "no source can be used: bpf: {}; counters: {}",
        causes(bpf),
        causes(counters)
    )]
    NoSource {
        /// Why `bpf` cannot be used.
        bpf: NoBpf,
        /// Why `counters` cannot be used.
        counters: NoCounters,
    },
    /// The process has no VM with a vCPU, or may not be looked at.
    #[error("process {0} has no VM on KVM that this user can see")]
    NoVm(u32),
    /// The processes cannot be listed.
    #[error("cannot list the processes")]
    Processes(#[source] io::Error),
    /// Reading what was counted failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Reading the statistics failed.
    #[error(transparent)]
    Counters(#[from] CountersError),
}

impl TopError {
    /// Whether the error is that a source, or all of them, cannot be used on this host or by this user.
    pub const fn is_of_source(&self) -> bool {
        matches!(
            self,
            Self::NoBpf(_) | Self::NoCounters(_) | Self::NoSource { .. }
        )
    }
}

/// An error with its causes, in one line. `vmbell_hypervisor::chain` does the same, but this crate depends on no other
/// crate of the workspace.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}
