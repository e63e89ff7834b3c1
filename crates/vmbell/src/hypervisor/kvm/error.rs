//! What can go wrong with KVM.

use std::io;

use crate::doorbell::{DoorbellError, IoEventAddress, Pattern};
use crate::irq::IrqError;

/// Why KVM could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvmError {
    /// The device file is missing: no module, or no virtualization on this CPU.
    #[error(
        "there is no /dev/kvm: load the kvm_intel or kvm_amd module and turn virtualization on in the firmware; \
         without it, use the usermode backend or `vmbell lab`"
    )]
    Missing {
        /// What opening it said.
        source: io::Error,
    },
    /// The device file is there, for others.
    #[error(
        "no permission to open /dev/kvm: join the group that owns it (usually `kvm`) and log in again"
    )]
    Permission {
        /// What opening it said.
        source: io::Error,
    },
    /// The device file does not open for another reason.
    #[error("cannot open /dev/kvm")]
    Open {
        /// Which.
        source: io::Error,
    },
    /// The device file is something else, or a KVM of another age.
    #[error("/dev/kvm speaks version {found} of the API, and only 12 is known")]
    Version {
        /// What it said.
        found: i32,
    },
    /// This KVM lacks something the backend rests on.
    #[error("this KVM has no {extension} (Linux {since}): a newer kernel is needed")]
    Extension {
        /// Its name in the kernel's API.
        extension: &'static str,
        /// The kernel that has it.
        since: &'static str,
    },
    /// A guest that the backend cannot hold.
    #[error("{what} is {value:#x}, must be {rule}")]
    Config {
        /// Which setting.
        what: &'static str,
        /// What it was.
        value: u64,
        /// What it may be.
        rule: String,
    },
    /// A call to KVM failed.
    #[error("cannot {operation}")]
    Call {
        /// What it was to do.
        operation: &'static str,
        /// Why it did not.
        source: io::Error,
    },
    /// Guest memory could not be mapped.
    #[error("cannot map {size:#x} bytes of guest memory")]
    Memory {
        /// How much.
        size: u64,
        /// Why not.
        source: vm_memory::mmap::FromRangesError,
    },
    /// The code that a guest starts from could not be assembled.
    #[error("cannot assemble {what} for the guest")]
    Assemble {
        /// Which.
        what: &'static str,
        /// Why not.
        source: iced_x86::IcedError,
    },
    /// This vCPU is taken or never was.
    #[error("vcpu {index} is taken already, or there are no more than {vcpus}")]
    Vcpu {
        /// Which.
        index: u32,
        /// How many there are.
        vcpus: u32,
    },
    /// The vCPU has run already.
    #[error("the entry point and the handler of a vcpu cannot change once it has run")]
    Running,
    /// An entry point that this guest was not made for.
    #[error("a vcpu cannot begin with {entry} in a guest with {guest}")]
    Entry {
        /// How it was to begin.
        entry: &'static str,
        /// What stands against it.
        guest: &'static str,
    },
    /// The guest faulted before and cannot go on.
    #[error("the guest faulted before and cannot be entered again")]
    Faulted,
    /// The CPU refused the guest's state.
    #[error("the cpu refused to enter the guest, reason {reason:#x}")]
    FailedEntry {
        /// The hardware's number for it.
        reason: u64,
    },
    /// KVM itself could not go on.
    #[error("kvm could not go on with the guest, internal error {suberror}")]
    Internal {
        /// `KVM_INTERNAL_ERROR_*` of Linux `uapi/linux/kvm.h`.
        suberror: u32,
    },
    /// An exit of a kind that this backend never asks for.
    #[error("the guest left for a reason that the backend does not know: {reason}")]
    UnknownExit {
        /// `exit_reason` of the kernel's `struct kvm_run`.
        reason: u32,
    },
    /// KVM signals one eventfd a write, so this member cannot join its group.
    #[error(
        "{address}, {pattern}: kvm signals one eventfd a write, so a wildcard cannot stand beside a value on one \
         address and length; give it an address of its own, or use the usermode backend"
    )]
    MixedGroup {
        /// The address.
        address: IoEventAddress,
        /// What it was to match.
        pattern: Pattern,
    },
    /// KVM has no doorbells there.
    #[error("{address}: kvm has ioeventfds on ports and memory only")]
    NoSuchDoorbell {
        /// The address.
        address: IoEventAddress,
    },
    /// An interrupt could not be set up.
    #[error(transparent)]
    Irq(#[from] IrqError),
    /// A doorbell could not be registered or removed.
    #[error(transparent)]
    Doorbell(#[from] DoorbellError),
}

impl KvmError {
    /// The error of a call through kvm-ioctls.
    pub(super) fn call(operation: &'static str) -> impl Fn(kvm_ioctls::Error) -> Self {
        move |error| Self::Call {
            operation,
            source: io::Error::from_raw_os_error(error.errno()),
        }
    }

    /// The error of the last system call.
    pub(super) fn last(operation: &'static str) -> Self {
        Self::Call {
            operation,
            source: io::Error::last_os_error(),
        }
    }
}
