//! Resets of a vCPU: there are none, because programs are the only entry points here, and they begin once.

use kvm_ioctls::{Kvm, VcpuFd};

use super::support::NO_KERNELS;
use crate::hypervisor::{Capability, Error, Irqchip};

/// The state of a vCPU after its reset. It has no value.
#[derive(Debug)]
pub enum State {}

impl State {
    /// Always fails with [`Error::Unsupported`].
    pub fn save(_: &Kvm, _: &VcpuFd, _: Irqchip) -> Result<Self, Error> {
        Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::Kernels,
            reason: NO_KERNELS.to_owned(),
        })
    }

    pub const fn restore(&self, _: &VcpuFd) -> Result<(), Error> {
        match *self {}
    }
}
