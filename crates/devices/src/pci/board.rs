//! A board's choices for its PCI bus: how guests reach configuration space, which addresses BARs are assigned from, at
//! which addresses no BAR answers, and which GSIs the INTx pins raise.

use vmbell::bus::BusRange;
use vmbell::irq::Gsi;

use super::bar::{Bar, BarSpace};
use super::registers::Pin;

/// A board's choices for its PCI bus.
#[derive(Clone, Debug)]
pub struct Board {
    /// How a guest reaches configuration space.
    pub config: ConfigAccess,
    /// The addresses that BARs are assigned from.
    pub windows: Windows,
    /// Memory that answers without being on the bus, such as RAM and interrupt controllers. A BAR that the guest puts
    /// there is not mapped.
    pub reserved: Vec<BusRange>,
    /// Returns the GSI that an interrupt pin of the function in `slot` raises; `None` if the pin is not connected.
    pub intx: fn(slot: usize, pin: Pin) -> Option<Gsi>,
}

/// How a guest reaches configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigAccess {
    /// Through the ports 0xcf8 to 0xcff; an access uses two of them (configuration mechanism 1, PCI 3.0, 3.2.2.3.2).
    Ports,
    /// In the 1 MiB of memory from this address, 4 KiB for each function (ECAM, PCI Express 5.0, 7.2.2).
    Memory(u64),
}

impl From<Windows> for Board {
    /// A board with configuration ports, no other memory, and no connected pin.
    fn from(windows: Windows) -> Self {
        Self {
            config: ConfigAccess::Ports,
            windows,
            reserved: Vec::new(),
            intx: |_, _| None,
        }
    }
}

/// A range of addresses that are handed out from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    range: BusRange,
    /// The first free address; `None` if the range is used up to the last address.
    next: Option<u64>,
}

impl Window {
    /// Creates a window over `range`, all of it free.
    pub const fn new(range: BusRange) -> Self {
        Self {
            range,
            next: Some(range.first()),
        }
    }

    /// The whole range.
    pub const fn range(self) -> BusRange {
        self.range
    }

    /// Takes the next `size` addresses, aligned to their size; `None` if there are not enough.
    fn take(&mut self, size: u64) -> Option<u64> {
        let base = self.next?.checked_next_multiple_of(size)?;
        let taken = BusRange::new(base, size).ok()?;
        if taken.last() > self.range.last() {
            return None;
        }
        self.next = taken.last().checked_add(1);
        Some(base)
    }
}

/// One window for each kind of BAR.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// I/O ports.
    pub io: Window,
    /// Memory below 4 GiB.
    pub memory32: Window,
    /// Memory for 64-bit BARs.
    pub memory64: Window,
}

impl Windows {
    /// Takes an address for a BAR. Fails with the window that has no room.
    pub(super) fn take(&mut self, bar: Bar) -> Result<u64, BusRange> {
        let window = match bar.space {
            BarSpace::Io => &mut self.io,
            BarSpace::Memory32 => &mut self.memory32,
            BarSpace::Memory64 => &mut self.memory64,
        };
        window.take(bar.size).ok_or(window.range)
    }
}
