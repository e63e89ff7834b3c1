//! The state of a vCPU and of a guest: neither can be saved, so no value of their types exists. A reset needs no state,
//! because KVM itself resets a vCPU.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vmbell::irq::Irqchip;

use super::vm::Parts;
use crate::state::{VcpuState, VmState};
use crate::{Capability, Error};

/// Why KVM has no [`Capability::Snapshots`] here.
pub const NO_SNAPSHOTS: &str = "the state of arm64's vcpus and interrupt controllers is not saved";

fn unsupported() -> Error {
    Error::Unsupported {
        backend: "kvm",
        capability: Capability::Snapshots,
        reason: NO_SNAPSHOTS.to_owned(),
    }
}

/// The registers for a vCPU's reset, which are empty because KVM resets the vCPU itself.
#[derive(Debug)]
pub struct Registers;

impl Registers {
    /// Never fails.
    pub const fn save(_: &Kvm, _: &VcpuFd, _: Irqchip) -> Result<Self, Error> {
        Ok(Self)
    }

    /// Never fails.
    pub const fn reset(&self, _: &VcpuFd) -> Result<(), Error> {
        Ok(())
    }
}

impl VcpuState {
    /// Always fails.
    pub(crate) fn save(_: &Kvm, _: &VcpuFd, _: Irqchip) -> Result<Self, Error> {
        Err(unsupported())
    }

    /// Never called: there is no state.
    pub(crate) const fn restore(&self, _: &VcpuFd, _: &Parts) -> Result<(), Error> {
        match *self {}
    }
}

impl VmState {
    /// Always fails.
    pub(crate) fn save(_: &VmFd, _: Irqchip) -> Result<Self, Error> {
        Err(unsupported())
    }

    /// Never called: there is no state.
    pub(crate) const fn restore(&self, _: &VmFd, _: Irqchip) -> Result<(), Error> {
        match *self {}
    }
}
