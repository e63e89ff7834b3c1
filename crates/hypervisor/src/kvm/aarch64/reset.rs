//! Resets of a vCPU: KVM itself makes one when another vCPU switches it on (Linux `arch/arm64/kvm/psci.c`), so no state
//! is kept for them.

use kvm_ioctls::{Kvm, VcpuFd};

use crate::{Error, Irqchip};

/// The state of a vCPU after its reset, which KVM knows.
#[derive(Debug)]
pub struct State;

impl State {
    /// Never fails.
    pub const fn save(_: &Kvm, _: &VcpuFd, _: Irqchip) -> Result<Self, Error> {
        Ok(Self)
    }

    /// Never fails.
    pub const fn restore(&self, _: &VcpuFd) -> Result<(), Error> {
        Ok(())
    }
}
