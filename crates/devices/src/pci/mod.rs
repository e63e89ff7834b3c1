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
mod host_bridge;
mod msi;
mod msix;
mod msix_table;
mod registers;
mod root;
mod routes;
mod slot;

use std::fmt;

use vmbell::bus::{BusError, BusRange};
use vmbell::irq::Gsi;

pub use bar::{BARS, Bar, BarSpace};
pub use board::{Board, ConfigAccess, Window, Windows};
pub use capability::{
    CAPABILITY_MSI, CAPABILITY_MSIX, Capability, CapabilityError, Found, find_capabilities,
};
pub use config::{
    COMMAND, COMMAND_INTX_DISABLE, CONFIG_SIZE, ConfigSpace, INTERRUPT_LINE, Identity,
};
pub use ecam::CONFIG_MEMORY_LEN;
pub use host_bridge::HostBridge;
pub use msi::{MsiCapability, MsiState};
pub use msix::{BarPart, MsixCapability, MsixControl, MsixError};
pub use msix_table::{MsixTable, read_pending};
pub use registers::{CapabilityList, Pin, Registers};
pub use root::{CONFIG_PORTS, CONFIG_PORTS_LEN, PciRoot, SLOTS};
pub use routes::{MessageIrqfd, Routes};

/// The fixed properties of a function.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The function's name, for messages.
    pub name: &'static str,
    /// Vendor, device and class.
    pub identity: Identity,
    /// The base address registers; the entry after a 64-bit BAR is `None`.
    pub bars: [Option<Bar>; BARS],
    /// Further contents of the function's configuration space.
    pub registers: Registers,
}

/// When the registers that a function itself answers for may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRegisters {
    /// Each only when the guest writes to it, so that the guest can read the registers from memory, without an exit.
    Still,
    /// The registers may change at any time.
    Live,
}

/// A PCI function. Its methods run on the thread of the vCPU that accesses it.
pub trait PciFunction: Send + Sync {
    /// Returns the fixed properties of the function.
    fn info(&self) -> FunctionInfo;

    /// Reads the function's own registers: fills `data`, at most four bytes of one dword.
    fn read_config(&self, _offset: usize, data: &mut [u8]) {
        data.fill(0xff);
    }

    /// Writes the function's own registers, at most four bytes of one dword.
    fn write_config(&self, _offset: usize, _data: &[u8]) {}

    /// Announces the emulated registers: before the guest starts, after each of its writes to them and after each
    /// reset. BARs that no longer decode have already been unmapped; BARs that decode now are mapped afterwards. The
    /// bus is locked during the call. Returns how the function's own registers change from now on.
    ///
    /// The function's interrupt pin raises `intx`; `None` if it has no pin, or the pin is not connected.
    fn configured(&self, _config: &ConfigSpace, _intx: Option<Gsi>) -> OwnRegisters {
        OwnRegisters::Live
    }

    /// Handles a read: fills `data` with the bytes at `offset` in BAR `bar`.
    fn read(&self, bar: usize, offset: u64, data: &mut [u8]);

    /// Handles a write of `data` at `offset` in BAR `bar`.
    fn write(&self, bar: usize, offset: u64, data: &[u8]);

    /// Announces that BAR `bar` is mapped at the address `base` from now on, or not mapped if `None`.
    fn moved(&self, bar: usize, base: Option<u64>);

    /// Resets the function's state, except for the addresses of its BARs.
    fn reset(&self);
}

/// Why a function cannot be added to the bus, or a BAR cannot be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PciError {
    /// All 32 slots are taken.
    #[error("no slot for {name}: all {slots} are taken")]
    NoSlot {
        /// The function.
        name: &'static str,
        /// How many slots there are.
        slots: usize,
    },
    /// The size of a BAR is not allowed.
    #[error(
        "BAR{bar} of {name}: a size of {size} bytes is not a power of two from {least} to {most}"
    )]
    Size {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The size.
        size: u64,
        /// The smallest size of a BAR of this kind.
        least: u64,
        /// The largest size.
        most: u64,
    },
    /// A 64-bit BAR has no register for its upper half: the BAR is in the last register, or the next register is used.
    #[error("BAR{bar} of {name} has no register for its upper half")]
    UpperHalf {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
    },
    /// The window has no room for a BAR.
    #[error("no room for BAR{bar} of {name}, {size} bytes, in {window}")]
    NoRoom {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The BAR's size in bytes or ports.
        size: u64,
        /// The window for BARs of this kind.
        window: Window,
    },
    /// The configuration ports cannot be added to the bus.
    #[error("cannot use the ports of PCI configuration")]
    Ports(#[from] BusError),
    /// A BAR overlaps RAM or other memory that is not on the bus.
    #[error(
        "BAR{bar} of {name} at {range} is over {reserved}, which is not free, and is not mapped"
    )]
    Reserved {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The addresses of the BAR.
        range: BusRange,
        /// The memory that the BAR overlaps.
        reserved: BusRange,
    },
    /// Another device has the addresses of a BAR.
    #[error("BAR{bar} of {name} clashes with another device")]
    Clash {
        /// The function.
        name: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// The overlap.
        source: BusError,
    },
}

impl fmt::Debug for dyn PciFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}
