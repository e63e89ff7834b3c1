//! The capabilities that depend on the architecture: all follow from what `/dev/kvm` answered.

use std::sync::Arc;

use vmbell::irq::Gic;

use super::super::system::System;
use super::host::NO_PORTS;
use super::state::NO_SNAPSHOTS;
use crate::{Capability, Support};

/// Returns whether the backend has `capability`, for capabilities that depend on the architecture.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    let no = |reason: &str| Support::No(reason.to_owned());
    match capability {
        Capability::PioDoorbell | Capability::KernelPort => no(NO_PORTS.unwrap_or_default()),
        Capability::Snapshots => no(NO_SNAPSHOTS),
        Capability::HypercallExit if !system.host.hypercall_exits => {
            no("this kernel sends no hypercall on to the VMM (Linux 6.4)")
        }
        Capability::Virtualization if !system.host.el2 => no(
            "kvm gives its guests no EL2, which needs a CPU with FEAT_NV2, Linux 6.16 and its parameter kvm-arm.mode=nested",
        ),
        Capability::Interrupts | Capability::Messages | Capability::EndOfInterrupt
            if system.host.gic.is_none() =>
        {
            no("this host has neither a GICv3 nor a GICv2 for its guests")
        }
        Capability::Messages if system.host.gic == Some(Gic::V2) => {
            no("a GICv2 has no ITS, which turns messages into interrupts")
        }
        // Guest code in EL1 runs on the CPU, as shown by exits, hypercalls and interrupts.
        _ => Support::Yes,
    }
}
