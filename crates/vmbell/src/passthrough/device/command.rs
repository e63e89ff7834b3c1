//! The COMMAND register of a PCI device (PCI 3.0, 6.2.2), for guests that have no PCI bus on which they would set it.

use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::{Device, DeviceKind};
use crate::passthrough::PassthroughError;

/// The register's offset in configuration space.
const COMMAND: u64 = 4;
/// The device answers at its memory BARs.
const MEMORY: u16 = 1 << 1;
/// The device may do DMA and send messages.
const MASTER: u16 = 1 << 2;

impl Device {
    /// Makes a PCI device answer at its memory BARs, and lets it do DMA and send messages. Without this its registers
    /// cannot be accessed. A platform device needs nothing of the kind, and this does nothing.
    pub fn enable(&self) -> Result<(), PassthroughError> {
        if self.kind() != DeviceKind::Pci {
            return Ok(());
        }
        let mut command = [0; 2];
        self.read(VFIO_PCI_CONFIG_REGION_INDEX, COMMAND, &mut command)?;
        let enabled = u16::from_le_bytes(command) | MEMORY | MASTER;
        let data = enabled.to_le_bytes();
        self.write(VFIO_PCI_CONFIG_REGION_INDEX, COMMAND, &data)
    }
}
