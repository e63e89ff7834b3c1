//! Which capabilities KVM has on arm64, as far as the architecture decides.

use std::sync::Arc;

use super::super::system::System;
use super::host::NO_PORTS;
use crate::{Capability, Support};
use vmbell::irq::Gic;

/// Whether the backend has `capability`, which the architecture decides.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    let no = |reason: &str| Support::No(reason.to_owned());
    match capability {
        Capability::PioDoorbell | Capability::KernelPort => no(NO_PORTS.unwrap_or_default()),
        Capability::HypercallExit if !system.host.hypercall_exits => {
            no("this kernel sends no hypercall on to the VMM (Linux 6.4)")
        }
        Capability::Interrupts | Capability::Messages | Capability::EndOfInterrupt
            if system.host.gic.is_none() =>
        {
            no("this host has neither a GICv3 nor a GICv2 for its guests")
        }
        Capability::Messages if system.host.gic == Some(Gic::V2) => {
            no("a GICv2 has no ITS, which turns messages into interrupts")
        }
        // Guest code of EL1 runs on the CPU, which exits, hypercalls and interrupts show.
        _ => Support::Yes,
    }
}
