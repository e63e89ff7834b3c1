//! A PCI bus and its functions. The guest reaches configuration space through I/O ports or in memory (ECAM).
//!
//! [`PciRoot`] is the device on ports 0xcf8 to 0xcff, or on the ECAM memory. It owns the configuration space of every
//! [`PciFunction`] and assigns base addresses before the guest starts, as firmware would. A configuration write that
//! changes the address of a BAR also maps the BAR there on the bus. All of it runs on the thread of the vCPU that makes
//! the access.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell_devices::pci::{HostBridge, PciError, PciRoot};
//!
//! /// Puts a host bridge on a bus that has no function yet.
//! fn add_bridge(root: &PciRoot) -> Result<(), PciError> {
//!     let slot = root.add(Arc::new(HostBridge))?;
//!     assert_eq!(slot, 0);
//!     Ok(())
//! }
//! ```

mod bar;
mod board;
mod capability;
mod config;
mod ecam;
mod error;
mod function;
mod msi;
mod msix;
mod msix_table;
mod registers;
mod root;
mod routes;
mod saved;
mod slot;

pub use bar::{BARS, Bar, BarSpace};
pub use board::{Board, ConfigAccess, Window, Windows};
pub use capability::{
    CAPABILITY_MSI, CAPABILITY_MSIX, CONFIG_SIZE, Capability, CapabilityError, Found,
    find_capabilities,
};
pub use config::{COMMAND, COMMAND_INTX_DISABLE, ConfigSpace, INTERRUPT_LINE, Identity};
pub use ecam::CONFIG_MEMORY_LEN;
pub use error::PciError;
pub use function::{
    FunctionInfo, FunctionSnapshot, HostBridge, OwnRegisters, PciFunction, SavedFunction,
};
pub use msi::{MsiCapability, MsiState};
pub use msix::{BarPart, MsixCapability, MsixControl, MsixError};
pub use msix_table::{MsixTable, read_pending};
pub use registers::{CapabilityList, Pin, Registers};
pub use root::{CONFIG_PORTS, CONFIG_PORTS_LEN, PciRoot, SLOTS};
pub use routes::{MessageIrqfd, Routes};
pub use saved::PciState;
