//! A PCI bus with functions on it, reached through configuration mechanism 1 (PCI 3.0, 3.2.2.3.2).
//!
//! [`PciRoot`] is the device on ports 0xcf8 to 0xcff. It owns the configuration space of every
//! [`PciFunction`], assigns base addresses before the guest starts, as firmware would, and puts
//! each BAR on the bus where the guest has it, from inside the configuration write that moves it.

mod bar;
mod config;
mod host_bridge;
mod root;
mod slot;
mod window;

use std::fmt;

pub use bar::{BARS, Bar, BarSpace};
pub use config::{COMMAND, ConfigSpace, Identity};
pub use host_bridge::HostBridge;
pub use root::{CONFIG_PORTS, PciRoot};
pub use window::{Window, Windows};

use crate::bus::BusError;

/// A function: what is behind its BARs, on whichever vCPU thread asks.
pub trait PciFunction: Send + Sync {
    /// Its name as users know it.
    fn name(&self) -> &'static str;

    /// Who made what.
    fn identity(&self) -> Identity;

    /// Its base address registers; a 64-bit one leaves the next place empty.
    fn bars(&self) -> [Option<Bar>; BARS];

    /// Fills `data` with what is at `offset` in a BAR.
    fn read(&self, bar: usize, offset: u64, data: &mut [u8]);

    /// Takes what was written at `offset` in a BAR.
    fn write(&self, bar: usize, offset: u64, data: &[u8]);

    /// A BAR answers at this address from now on, or nowhere.
    fn moved(&self, bar: usize, base: Option<u64>);

    /// Forgets everything but where its BARs are.
    fn reset(&self);
}

/// Why a function cannot be on the bus.
#[derive(Debug, thiserror::Error)]
pub enum PciError {
    /// There are 32 devices on a bus.
    #[error("no slot for {name}: all {slots} are taken")]
    NoSlot {
        /// The function.
        name: &'static str,
        /// How many there are.
        slots: usize,
    },
    /// A size that no BAR can have.
    #[error(
        "BAR{bar} of {name}: a size of {size:#x} is not a power of two from {least:#x} to {most:#x}"
    )]
    Size {
        /// The function.
        name: &'static str,
        /// Its BAR.
        bar: usize,
        /// The size.
        size: u64,
        /// The smallest that its kind can have.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A BAR behind the last place, or a 64-bit one with no room for its upper half.
    #[error("BAR{bar} of {name} has no register for its upper half")]
    UpperHalf {
        /// The function.
        name: &'static str,
        /// Its BAR.
        bar: usize,
    },
    /// The window is used up.
    #[error("no room for BAR{bar} of {name}, {size:#x} bytes, in {window}")]
    NoRoom {
        /// The function.
        name: &'static str,
        /// Its BAR.
        bar: usize,
        /// Its size.
        size: u64,
        /// The addresses that there are for its kind.
        window: Window,
    },
    /// The bus itself has no place.
    #[error("cannot use the ports of PCI configuration")]
    Ports(#[from] BusError),
    /// Somebody else answers there.
    #[error("BAR{bar} of {name} clashes with another device")]
    Clash {
        /// The function.
        name: &'static str,
        /// Its BAR.
        bar: usize,
        /// With which.
        source: BusError,
    },
}

impl fmt::Debug for dyn PciFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
