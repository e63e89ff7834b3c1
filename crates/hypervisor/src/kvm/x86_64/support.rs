//! Which capabilities KVM has on x86-64, as far as the architecture decides. What only a guest can show is found by
//! running one once, on the thread that asks.

use std::sync::Arc;

use super::super::system::System;
use super::trial;
use crate::{Capability, Support};

/// Whether the backend has `capability`, which the architecture decides.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    match capability {
        Capability::CountsLightExits => trial::light_exits(system),
        Capability::NativeKernelMode => trial::native_kernel_mode(system),
        Capability::EndOfInterrupt => trial::ends_of_interrupts(system),
        Capability::HypercallExit if !system.host.hypercall_exits => {
            Support::No("this kernel sends no hypercall on to the VMM (Linux 5.14)".to_owned())
        }
        Capability::HypercallInstruction | Capability::HypercallExit => trial::hypercalls(system),
        // Ports, kernels and interrupts.
        _ => Support::Yes,
    }
}
