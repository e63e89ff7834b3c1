//! Which [`Capability`] this host's KVM has.

use std::sync::Arc;

use super::super::{Capability, Support};
use super::arch;
use super::doorbells::NO_HYPERCALL_DOORBELLS;
use super::forward;
use super::interrupts::NO_FORWARDED_LINES;
use super::system::System;

/// Whether the backend has `capability` here, and if not, why.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    let no = |reason: &str| Support::No(reason.to_owned());
    match capability {
        Capability::Run
        | Capability::MmioDoorbell
        | Capability::DoorbellGroups
        | Capability::SilentSaturation
        | Capability::CoalescedMmio
        | Capability::BareLoop
        | Capability::MovableDeviceMemory => Support::Yes,
        Capability::PioDoorbell
        | Capability::KernelPort
        | Capability::Kernels
        | Capability::Interrupts
        | Capability::Messages
        | Capability::CountsLightExits
        | Capability::NativeKernelMode
        | Capability::EndOfInterrupt
        | Capability::HypercallInstruction
        | Capability::HypercallExit => arch::support::support(system, capability),
        Capability::ForwardedInterrupts => forward::support(),
        Capability::ForwardedLines => no(NO_FORWARDED_LINES),
        Capability::HypercallDoorbell => no(NO_HYPERCALL_DOORBELLS),
        Capability::MixedGroups => no("kvm signals one eventfd a write"),
        Capability::Int3Patching | Capability::JmpPatching => {
            no("guest code runs as it is and traps in the cpu")
        }
        Capability::RegisterExits => no("kvm answers for the registers that it knows"),
        Capability::SpinPolicy => no("a vcpu runs on the thread that answers its exits"),
    }
}
