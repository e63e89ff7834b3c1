//! What can go wrong with KVM only.

use std::io;

use super::super::Error;
use crate::doorbell::{IoEventAddress, Pattern};

/// Why KVM could not do what it was asked: the cause inside an [`Error`].
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
    /// The code that a guest starts from could not be assembled.
    #[error("cannot assemble {what} for the guest")]
    Assemble {
        /// Which.
        what: &'static str,
        /// Why not.
        source: iced_x86::IcedError,
    },
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
    /// Somebody kicked a bare loop.
    #[error("kicked, {left} of {exits} exits before its end")]
    Kicked {
        /// Exits that it was still to make.
        left: u64,
        /// Of how many.
        exits: u64,
    },
    /// A bare loop did something else than it is made of.
    #[error("the loop left for {exit}")]
    Strayed {
        /// The exit, in words.
        exit: String,
    },
}

impl KvmError {
    /// The error of an assembler that was to make `what`.
    pub(super) fn assemble(what: &'static str) -> impl Fn(iced_x86::IcedError) -> Error {
        move |source| Self::Assemble { what, source }.into()
    }
}

impl From<KvmError> for Error {
    fn from(error: KvmError) -> Self {
        Self::Backend(Box::new(error))
    }
}
