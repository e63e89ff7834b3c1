//! The addresses that BARs are assigned from.

use std::fmt;

use super::bar::{Bar, BarSpace};
use crate::bus::BusRange;

/// A range of addresses, handed out from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    range: BusRange,
    /// The first address that is free; none once the range is used up to the last address.
    next: Option<u64>,
}

impl Window {
    /// All of a range.
    pub const fn new(range: BusRange) -> Self {
        Self {
            range,
            next: Some(range.first()),
        }
    }

    /// The next `size` addresses, aligned to their size, if there are as many left.
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

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}

/// One window for each kind of BAR.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Ports.
    pub io: Window,
    /// Memory below 4 GiB.
    pub memory32: Window,
    /// Memory above.
    pub memory64: Window,
}

impl Windows {
    /// An address for a BAR, or the window that has none left.
    pub(super) fn take(&mut self, bar: Bar) -> Result<u64, Window> {
        let window = match bar.space {
            BarSpace::Io => &mut self.io,
            BarSpace::Memory32 => &mut self.memory32,
            BarSpace::Memory64 => &mut self.memory64,
        };
        window.take(bar.size).ok_or(*window)
    }
}
