//! What depends on the architecture: how an interrupt reaches a guest program, and the addresses at which programs
//! ring.
//!
//! On x86-64 an edge is a message to the local APIC, and a level is a pin of the I/O APIC. On arm64 both are shared
//! peripheral interrupts, which every version of the GIC has, and a message goes through the ITS, which only
//! version 3 has.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(target_arch = "aarch64"))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::bell;
#[cfg(not(target_arch = "aarch64"))]
pub(crate) use x86_64::bell;

use std::sync::Arc;

use super::guest::ScenarioFailure;
use crate::SubjectError;
use vmbell::bus::{BusDevice, BusError, BusRange};
use vmbell::doorbell::IoEventAddress;
use vmbell::irq::{Gsi, Route};
use vmbell_guest::Interrupts;
use vmbell_hypervisor::Irqs;
use vmbell_vmm::Machine;

/// How the guest is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptSource {
    /// By another vCPU or by itself: nothing outside of the guest takes part.
    Itself,
    /// By an edge that an irqfd raises.
    Edge,
    /// By a message.
    Message,
    /// By a level-triggered line.
    Level,
}

/// An interrupt on its way to a guest program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wiring {
    /// The interrupt's route; `None` for [`InterruptSource::Itself`].
    pub(crate) route: Option<Route>,
    /// How the program handles the interrupt.
    pub(crate) interrupts: Interrupts,
}

impl Wiring {
    /// Sets the route.
    pub(crate) fn connect(&self, vm: &dyn Irqs) -> Result<(), ScenarioFailure> {
        Ok(vm.set_routing(self.route.as_slice())?)
    }

    /// The GSI of the route.
    pub(crate) fn gsi(&self, subject: &str) -> Result<Gsi, SubjectError> {
        let none = || SubjectError::failed(subject, "its interrupt has no route");
        self.route.map(|route| route.gsi).ok_or_else(none)
    }
}

/// Puts a device of eight bytes at an address.
pub(crate) fn attach(
    machine: &Machine,
    address: IoEventAddress,
    device: Arc<dyn BusDevice>,
) -> Result<(), BusError> {
    let range = BusRange::new(address.value(), 8)?;
    match address {
        IoEventAddress::Pio(_) => machine.pio.insert(range, device),
        IoEventAddress::Mmio(_) => machine.mmio.insert(range, device),
        IoEventAddress::Hypercall(_) => machine.hypercall.insert(range, device),
    }
}
