//! A host's PCI device as a function of the guest's PCI bus (PCI 3.0; Linux `Documentation/driver-api/vfio.rst`).
//!
//! [`AssignedPci`] emulates the registers that say where the device is and how it interrupts: BARs, command, INTx, MSI
//! and MSI-X. All other registers are the device's. The device is reached through three traits: [`PciAccess`] for
//! its registers, [`GuestMapping`] for what the guest reaches without an exit, [`InterruptWiring`] for its interrupts.
//! All of it runs on the thread of the vCPU that accesses, those of several vCPUs at a time.

mod areas;
mod error;
mod function;
mod interrupts;
mod shape;
mod vfio;

pub use areas::Area;
pub use error::{AssignError, AssignedError, Failure, Space};
pub use function::{AssignedPci, OnError};
pub use vfio::{GuestParts, VfioPci};

use vmbell::irq::{Gsi, Msi};
use vmbell_devices::pci::BARS;

/// How the registers of a device are accessed.
pub trait PciAccess: Send + Sync {
    /// Reads configuration space: fills `data`, which ends at offset 256 at most.
    fn read_config(&self, offset: usize, data: &mut [u8]) -> Result<(), Failure>;

    /// Writes configuration space, up to offset 256.
    fn write_config(&self, offset: usize, data: &[u8]) -> Result<(), Failure>;

    /// Reads `data` at `offset` in BAR `bar`.
    fn read_bar(&self, bar: usize, offset: u64, data: &mut [u8]) -> Result<(), Failure>;

    /// Writes `data` at `offset` in BAR `bar`.
    fn write_bar(&self, bar: usize, offset: u64, data: &[u8]) -> Result<(), Failure>;

    /// Resets the device.
    fn reset(&self) -> Result<(), Failure>;
}

/// How parts of the BARs are mapped into the guest, so that the guest's accesses do not exit.
pub trait GuestMapping: Send + Sync {
    /// Maps `area` of BAR `bar`, whole pages, at the guest-physical `address`.
    fn map(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure>;

    /// Undoes a [`map`](Self::map). After it the guest does not reach the area.
    fn unmap(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure>;
}

/// How the interrupts of a device reach the guest. One of INTx, MSI and MSI-X is on at a time, or none, as at the
/// start; [`disable`](Self::disable) is called between two of them, and also after a call that has failed.
///
/// A vector without a message is masked: an interrupt of it is kept, and sent once the vector has a message again.
pub trait InterruptWiring: Send + Sync {
    /// Turns INTx on: the device raises the level-triggered `gsi`.
    fn set_intx(&self, gsi: Gsi) -> Result<(), Failure>;

    /// Turns MSI on with these messages of its vectors, or changes the messages, and then maybe their number.
    fn set_msi(&self, messages: &[Option<Msi>]) -> Result<(), Failure>;

    /// Turns MSI-X on with these messages of all vectors that the device has.
    fn set_msix(&self, messages: &[Option<Msi>]) -> Result<(), Failure>;

    /// Changes the message of one vector while MSI-X is on.
    fn set_msix_vector(&self, vector: u16, message: Option<Msi>) -> Result<(), Failure>;

    /// Turns all interrupts off.
    fn disable(&self) -> Result<(), Failure>;

    /// Whether an interrupt of a masked vector is kept.
    fn is_pending(&self, vector: u16) -> Result<bool, Failure>;
}

/// What is known of a device in addition to its configuration space.
#[derive(Clone, Debug, Default)]
pub struct PciInfo {
    /// The BARs; the entry after a 64-bit BAR is empty.
    pub bars: [BarInfo; BARS],
    /// Whether INTx can be wired.
    pub intx: bool,
    /// How many vectors of MSI can be wired.
    pub msi: u32,
    /// How many vectors of MSI-X can be wired.
    pub msix: u32,
}

/// What is known of a BAR.
#[derive(Clone, Debug, Default)]
pub struct BarInfo {
    /// The size in bytes or ports; 0 if there is no such BAR.
    pub size: u64,
    /// The areas that may be mapped into the guest; of them, whole pages inside the BAR are.
    pub mappable: Vec<Area>,
}

#[cfg(test)]
mod tests;
