//! The errors that only the KVM backend has.

use std::io;

use super::super::Error;
use super::arch::host::MISSING;
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
    #[error("/dev/kvm has API version {found}, but only 12 is supported")]
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

/// Why the module does not forward an interrupt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The module is not loaded on this host.
    #[error(
        "the module vfio_forward is not loaded (kernel/vfio-forward); without it, a resample eventfd unmasks the line"
    )]
    NoModule {
        /// The error of `open`.
        source: io::Error,
    },
    /// The module has a different version of the interface.
    #[error("the module vfio_forward has version {found} of its interface, and only 1 is known")]
    Version {
        /// The module's version.
        found: i32,
    },
    /// The file is not a device of vfio-platform or vfio-amba.
    #[error("only a device of vfio-platform or vfio-amba has interrupts that can be forwarded")]
    Device,
    /// The device has no such interrupt.
    #[error("the device has no such interrupt")]
    Index,
    /// The interrupt is edge-triggered.
    #[error(
        "it is triggered by edges, which have no state that the guest's end of interrupt could complete"
    )]
    Edge,
    /// The VM belongs to another process.
    #[error("the vm is of another process")]
    OtherProcess,
    /// The guest has no initialised GIC.
    #[error("the guest's gic is not initialised: make its vcpus first")]
    Gic,
    /// The guest's GIC has no such line.
    #[error("the guest's gic has no such line")]
    Range,
    /// The line belongs to another interrupt or device.
    #[error("the line belongs to another interrupt or device")]
    Taken,
    /// The guest has not ended an interrupt of the line.
    #[error("the guest has an interrupt of that line which it has not ended")]
    InProgress,
    /// The host's interrupt controller does priority drop and deactivation in one step.
    #[error("the host's interrupt controller does not separate priority drop and deactivation")]
    HostController,
    /// The interrupt is forwarded already.
    #[error("it is forwarded already, or another handler shares it")]
    Busy,
    /// Another failure.
    #[error("the module vfio_forward refused it")]
    Other {
        /// The error of the ioctl.
        source: io::Error,
    },
}

impl From<io::Error> for ForwardError {
    fn from(source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENODEV) => Self::Device,
            Some(libc::ENXIO) => Self::Index,
            Some(libc::EOPNOTSUPP) => Self::Edge,
            Some(libc::EPERM) => Self::OtherProcess,
            Some(libc::EAGAIN) => Self::Gic,
            Some(libc::ERANGE) => Self::Range,
            Some(libc::EADDRINUSE) => Self::Taken,
            Some(libc::EINPROGRESS) => Self::InProgress,
            Some(libc::EPROTONOSUPPORT) => Self::HostController,
            Some(libc::EBUSY) => Self::Busy,
            _ => Self::Other { source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_is_wrong() {
        let text = |errno| ForwardError::from(io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::EOPNOTSUPP).contains("edges"));
        assert!(text(libc::EPERM).contains("another process"));
        assert!(text(libc::EAGAIN).contains("not initialised"));
        assert!(text(libc::ENOMEM).contains("refused"));
    }
}
