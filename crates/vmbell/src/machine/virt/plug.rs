//! The virtio devices of the board: each has registers at a fixed address and one line.

use std::sync::PoisonError;

use super::layout::{VIRTIO_MAX, virtio};
use super::{Virt, VirtError};
use crate::device::virtio::Handler;
use crate::device::virtio::VirtioConfig;
use crate::hypervisor::Vm;
use crate::machine::mmio;

impl<V: Vm> Virt<V> {
    /// Adds a virtio device with so many queues.
    ///
    /// # Errors
    /// The board has no place for it, or the process no descriptors or threads.
    pub fn add_virtio<D: Handler + 'static>(
        &self,
        handler: D,
        queues: u16,
        config: VirtioConfig,
    ) -> Result<(), VirtError> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if *devices >= VIRTIO_MAX {
            return Err(VirtError::NoPlace {
                device: D::NAME,
                most: VIRTIO_MAX,
            });
        }
        let (machine, switch, location) = (&self.machine, &self.switch, virtio(*devices));
        mmio::plug(machine, switch, location, (handler, queues), config)?;
        *devices += 1;
        Ok(())
    }
}
