//! The capabilities that the backend has on no host, and why.

use vmbell_hypervisor::{Capability, Error};

/// The name of the backend, as users type it.
pub const BACKEND: &str = "usermode";

/// Makes the error for a capability that the backend has on no host.
pub fn unsupported(capability: Capability) -> Error {
    Error::Unsupported {
        backend: BACKEND,
        capability,
        reason: why_never(capability).unwrap_or_default().into(),
    }
}

/// Returns why the backend has `capability` on no host; `None` if it depends on the host.
pub const fn why_never(capability: Capability) -> Option<&'static str> {
    match capability {
        Capability::SilentSaturation => Some(
            "the ring is a write(2): at a saturated counter it is dropped without EPOLLERR, and an eventfd without \
             EFD_NONBLOCK holds the vcpu until it is read or kicked",
        ),
        Capability::CoalescedMmio => Some("every write that no doorbell takes is an exit"),
        Capability::KernelPort => Some("the stub has no devices"),
        Capability::HypercallInstruction => Some(
            "in ring 3 it would reach another hypervisor, or none: guests call the hypercall page",
        ),
        Capability::BareLoop => Some("nothing below the VMM's own loop can leave the guest"),
        Capability::Kernels | Capability::Virtualization | Capability::NativeKernelMode => {
            Some("guest code runs in ring 3")
        }
        Capability::Snapshots => Some("the state of its sandbox process is not saved"),
        Capability::MovableDeviceMemory => Some("the sandbox maps no memory once it has started"),
        Capability::ForwardedInterrupts => {
            Some("the guest's local apics are memory, and no controller of the host knows them")
        }
        Capability::Run
        | Capability::PioDoorbell
        | Capability::MmioDoorbell
        | Capability::HypercallDoorbell
        | Capability::HypercallExit
        | Capability::RegisterExits
        | Capability::SpinPolicy
        | Capability::Interrupts
        | Capability::Messages
        | Capability::EndOfInterrupt
        | Capability::ForwardedLines
        | Capability::CountsLightExits
        | Capability::DoorbellGroups
        | Capability::MixedGroups
        | Capability::PayloadDoorbell
        | Capability::Int3Patching
        | Capability::JmpPatching => None,
    }
}
