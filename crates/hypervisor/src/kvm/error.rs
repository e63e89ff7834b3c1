//! The errors that only the KVM backend has.

use std::io;

use super::super::Error;
use super::arch::host::MISSING;
use super::forward::ForwardError;
use vmbell::doorbell::{IoEventAddress, Pattern};
use vmbell::irq::Gsi;

/// Why KVM could not do what it was asked: the cause inside an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvmError {
    /// There is no `/dev/kvm`: the module is not loaded, or the CPU has no virtualization.
    #[error("there is no /dev/kvm: {MISSING}")]
    Missing {
        /// The error of `open`.
        source: io::Error,
    },
    /// This user may not open `/dev/kvm`.
    #[error(
        "no permission to open /dev/kvm: join the group that owns it (usually `kvm`) and log in again"
    )]
    Permission {
        /// The error of `open`.
        source: io::Error,
    },
    /// `/dev/kvm` cannot be opened, for another reason.
    #[error("cannot open /dev/kvm")]
    Open {
        /// The error of `open`.
        source: io::Error,
    },
    /// The version of the KVM API is not 12.
    #[error("/dev/kvm speaks version {found} of the API, and only 12 is known")]
    Version {
        /// The version that KVM_GET_API_VERSION returned.
        found: i32,
    },
    /// This KVM lacks an extension that the backend needs.
    #[error("this KVM has no {extension} (Linux {since}): a newer kernel is needed")]
    Extension {
        /// The extension's name in the kernel's API.
        extension: &'static str,
        /// The first Linux version that has it.
        since: &'static str,
    },
    /// The process has its own handler for the signal that should kick vCPUs.
    #[error(
        "signal {signal} cannot kick vcpus, because this process has another handler for it: choose a signal without one \
         (Kvm::with_kick_signal)"
    )]
    KickSignal {
        /// The number of the signal.
        signal: i32,
    },
    /// The CPU refused to enter the guest with its state (KVM_EXIT_FAIL_ENTRY).
    #[error("the cpu refused to enter the guest, reason {reason:#x}")]
    FailedEntry {
        /// `hardware_entry_failure_reason` of the kernel's `struct kvm_run`.
        reason: u64,
    },
    /// KVM could not continue the guest (KVM_EXIT_INTERNAL_ERROR).
    #[error("kvm could not go on with the guest, internal error {suberror}")]
    Internal {
        /// `KVM_INTERNAL_ERROR_*` of Linux `uapi/linux/kvm.h`.
        suberror: u32,
    },
    /// The guest left with an exit reason that this backend does not handle.
    #[error("the guest left for a reason that the backend does not know: {reason}")]
    UnknownExit {
        /// `exit_reason` of the kernel's `struct kvm_run`.
        reason: u32,
    },
    /// The item would put a value and a wildcard into one group. KVM signals one eventfd for each write, so it cannot
    /// signal both; its module `kvm_ioeventfd` can.
    #[error(
        "{address}, {pattern}: kvm signals one eventfd a write, so one address and length cannot have a wildcard and \
         a value; give the wildcard its own address, load the module kvm_ioeventfd, or use the usermode backend"
    )]
    MixedGroup {
        /// The address of the group.
        address: IoEventAddress,
        /// The match of the refused item.
        pattern: Pattern,
    },
    /// A device interrupt cannot be forwarded.
    #[error("cannot forward interrupt {index} of the device to {gsi}")]
    Forward {
        /// The device's interrupt index.
        index: u32,
        /// The line that the interrupt should be forwarded to.
        gsi: Gsi,
        /// Why it cannot be forwarded.
        source: ForwardError,
    },
}

impl From<KvmError> for Error {
    fn from(error: KvmError) -> Self {
        Self::Backend(Box::new(error))
    }
}
