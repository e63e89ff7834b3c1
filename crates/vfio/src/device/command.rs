//! The COMMAND register of a PCI device (PCI 3.0, 6.2.2). The VMM sets it for guests that have no PCI bus, and when a
//! device is given back.

use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::{Device, DeviceKind};
use crate::error::PassthroughError;

/// The register's offset in configuration space.
const COMMAND: u64 = 4;
/// The device answers at its memory BARs.
const MEMORY: u16 = 1 << 1;
/// The device may do DMA and send messages.
const MASTER: u16 = 1 << 2;

impl Device {
    /// Makes a PCI device answer at its memory BARs, and lets it do DMA and send messages. Without this its registers
    /// cannot be accessed. Does nothing for a platform device.
    pub fn enable(&self) -> Result<(), PassthroughError> {
        self.change_command(|command| command | MEMORY | MASTER)
    }

    /// Keeps a PCI device from DMA and from sending messages. Does nothing for a platform device.
    pub(super) fn stop_dma(&self) -> Result<(), PassthroughError> {
        self.change_command(|command| command & !MASTER)
    }

    fn change_command(&self, change: impl Fn(u16) -> u16) -> Result<(), PassthroughError> {
        const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;
        if self.kind() != DeviceKind::Pci {
            return Ok(());
        }
        let mut command = [0; 2];
        self.read(CONFIG, COMMAND, &mut command)?;
        let changed = change(u16::from_le_bytes(command));
        self.write(CONFIG, COMMAND, &changed.to_le_bytes())
    }
}
