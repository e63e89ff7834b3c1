//! A backend, and the guests that it creates. Any thread may use both.

use std::fmt;
use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmbell::irq::{Gic, IrqArch};

use super::capability::{Capability, Support};
use super::config::VmConfig;
use super::device_memory::AssignedDevices;
use super::error::Error;
use super::irqs::Irqs;
use super::measure::Measure;
use super::registration::IoEvents;
use super::state::VmState;
use super::vcpu::Vcpu;

/// The architecture of the guests that this host can run.
pub const IRQ_ARCH: IrqArch = if cfg!(target_arch = "aarch64") {
    IrqArch::Arm64
} else {
    IrqArch::X86_64
};

/// A backend, which creates guests.
pub trait Hypervisor: fmt::Debug + Send + Sync {
    /// The backend's name as users type it: `kvm`, `usermode`.
    fn name(&self) -> &'static str;

    /// Returns whether the backend has `capability` on this host, and if not, why.
    fn support(&self, capability: Capability) -> Support;

    /// Fails, with the reason, unless the backend has `capability` on this host.
    fn require(&self, capability: Capability) -> Result<(), Error> {
        match self.support(capability) {
            Support::Yes => Ok(()),
            Support::No(reason) => Err(Error::Unsupported {
                backend: self.name(),
                capability,
                reason,
            }),
        }
    }

    /// Creates a guest with RAM and without code. Fails with [`Error::Config`] if the backend does not support these
    /// settings.
    ///
    /// The guest is shared, because devices that register doorbells or interrupts themselves keep a reference to it.
    fn create_vm(&self, config: &VmConfig) -> Result<Arc<dyn Vm>, Error>;
}

/// A guest: its memory, vCPUs, doorbells, interrupts and assigned devices.
pub trait Vm: IoEvents + Irqs + AssignedDevices + fmt::Debug {
    /// Guest RAM, at its guest-physical addresses: the caller's memory if [`VmConfig::memory`] is set.
    fn memory(&self) -> &GuestMemoryMmap;

    /// Creates the vCPU with this index. Fails with [`Error::Vcpu`] if it exists already or the guest has fewer vCPUs.
    fn create_vcpu(&self, index: u32) -> Result<Box<dyn Vcpu>, Error>;

    /// The version of an arm64 guest's interrupt controllers; `None` if it has no controllers, and on other
    /// architectures.
    fn gic(&self) -> Option<Gic> {
        None
    }

    /// Saves the state of the guest's controllers and clock while no vCPU runs; its memory and
    /// [vCPUs](crate::VcpuSnapshot) are saved separately. Needs [`Capability::Snapshots`].
    fn save(&self) -> Result<VmState, Error>;

    /// Restores a saved state, after that of all vCPUs and before one of them runs. Fails with [`Error::Unrestored`] if
    /// the guest has other controllers.
    fn restore(&self, state: &VmState) -> Result<(), Error>;

    /// The measurements of this guest and its backend.
    fn measure(&self) -> &dyn Measure;
}
