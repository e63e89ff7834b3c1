//! Virtio devices on MMIO registers. They share addresses and pins with the platform devices of the host, and the DSDT
//! tells the guest of them.

use std::sync::PoisonError;

use super::{Pc, PcError};
use crate::MachineError;
use crate::mmio::Place;
use vmbell_devices::virtio::Handler;
use vmbell_devices::virtio::VirtioConfig;
use vmbell_devices::virtio::mmio::Location;
use vmbell_devices::virtio::vhost::Worker;

impl Pc {
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
        self.at_next(D::NAME, config, |place| place.plug(handler, queues))
    }

    /// Adds a virtio device whose queues a worker serves on MMIO registers.
    ///
    /// # Errors
    /// The board has no addresses or no pin for it, or the process no descriptors or threads.
    pub fn add_vhost_mmio<W: Worker + 'static>(
        &self,
        worker: W,
        config: VirtioConfig,
    ) -> Result<(), PcError> {
        self.at_next(W::NAME, config, |place| place.plug_worker(worker))
    }

    fn at_next(
        &self,
        device: &'static str,
        config: VirtioConfig,
        plug: impl FnOnce(Place<'_>) -> Result<(), MachineError>,
    ) -> Result<(), PcError> {
        let mut taken = self.platform.lock().unwrap_or_else(PoisonError::into_inner);
        let location = taken.take_virtio();
        let location = location.map_err(|what| PcError::NoPlace { device, what })?;
        Ok(plug(Place {
            machine: &self.machine,
            switch: &self.switch,
            location,
            config,
        })?)
    }

    /// Where these devices are.
    pub(super) fn virtio_mmio(&self) -> Vec<Location> {
        let taken = self.platform.lock().unwrap_or_else(PoisonError::into_inner);
        taken.virtio().to_vec()
    }
}
