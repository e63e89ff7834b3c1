//! Virtio devices on MMIO registers. They share addresses and pins with the platform devices of the host, and the DSDT
//! tells the guest of them.

use std::sync::PoisonError;

use super::{Pc, PcError};
use crate::device::virtio::Handler;
use crate::device::virtio::VirtioConfig;
use crate::device::virtio::mmio::Location;
use crate::hypervisor::Vm;
use crate::machine::mmio;

impl<V: Vm> Pc<V> {
    /// Adds a virtio device with so many queues on MMIO registers.
    ///
    /// # Errors
    /// The board has no addresses or no pin for it, or the process no descriptors or threads.
    pub fn add_virtio_mmio<D: Handler + 'static>(
        &self,
        handler: D,
        queues: u16,
        config: VirtioConfig,
    ) -> Result<(), PcError> {
        let device = D::NAME;
        let mut taken = self.platform.lock().unwrap_or_else(PoisonError::into_inner);
        let location = taken.take_virtio();
        let location = location.map_err(|what| PcError::NoPlace { device, what })?;
        let (machine, switch) = (&self.machine, &self.switch);
        Ok(mmio::plug(
            machine,
            switch,
            location,
            (handler, queues),
            config,
        )?)
    }

    /// Where these devices are.
    pub(super) fn virtio_mmio(&self) -> Vec<Location> {
        let taken = self.platform.lock().unwrap_or_else(PoisonError::into_inner);
        taken.virtio().to_vec()
    }
}
