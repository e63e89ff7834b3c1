//! Which [`Capability`] this host's KVM has. What only a guest can show is found by running one once, on the thread
//! that asks.

use std::sync::Arc;

use super::super::{Capability, Support};
use super::arch::trial;
use super::doorbells::NO_HYPERCALL_DOORBELLS;
use super::forward;
use super::system::System;

/// Whether the backend has `capability` here, and if not, why.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    let no = |reason: &str| Support::No(reason.to_owned());
    match capability {
        Capability::Run
        | Capability::PioDoorbell
        | Capability::MmioDoorbell
        | Capability::DoorbellGroups
        | Capability::SilentSaturation
        | Capability::CoalescedMmio
        | Capability::KernelPort
        | Capability::BareLoop
        | Capability::Kernels
        | Capability::Interrupts
        | Capability::MovableDeviceMemory => Support::Yes,
        Capability::CountsLightExits => trial::light_exits(system),
        Capability::NativeKernelMode => trial::native_kernel_mode(system),
        Capability::ForwardedInterrupts => forward::support(),
        Capability::EndOfInterrupt => trial::ends_of_interrupts(system),
        Capability::HypercallInstruction => trial::hypercalls(system),
        Capability::HypercallExit if system.hypercall_exits => trial::hypercalls(system),
        Capability::HypercallExit => {
            no("this kernel sends no hypercall on to the VMM (Linux 5.14)")
        }
        Capability::HypercallDoorbell => no(NO_HYPERCALL_DOORBELLS),
        Capability::MixedGroups => no("kvm signals one eventfd a write"),
        Capability::Int3Patching | Capability::JmpPatching => {
            no("guest code runs as it is and traps in the cpu")
        }
        Capability::RegisterExits => no("kvm answers for the registers that it knows"),
        Capability::SpinPolicy => no("a vcpu runs on the thread that answers its exits"),
    }
}
