//! Base address registers: which bits a guest can write, and what addresses they mean
//! (PCI 3.0, 6.2.5.1).

use super::PciError;
use crate::bus::BusRange;

/// Places for them in a header of type 0.
pub const BARS: usize = 6;

/// Where a BAR is, and with which register it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarSpace {
    /// Ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory anywhere, prefetchable; takes two registers.
    Memory64,
}

impl BarSpace {
    /// The bits of the register that say what it is, and that no guest can change.
    pub(super) const fn kind_bits(self) -> u64 {
        match self {
            Self::Io => 0b01,
            Self::Memory32 => 0b0000,
            Self::Memory64 => 0b1100,
        }
    }

    const fn least(self) -> u64 {
        match self {
            Self::Io => 4,
            Self::Memory32 | Self::Memory64 => 16,
        }
    }

    const fn most(self) -> u64 {
        match self {
            Self::Io => 256,
            Self::Memory32 => 1 << 31,
            Self::Memory64 => 1 << 63,
        }
    }

    /// The last address that is ordinary. The very last of the space means "nowhere": it is what
    /// stands in the register while a guest asks for the size.
    const fn limit(self) -> u64 {
        match self {
            Self::Io => 0xffff,
            Self::Memory32 => 0xffff_fffe,
            Self::Memory64 => u64::MAX - 1,
        }
    }
}

/// A base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Where it is.
    pub space: BarSpace,
    /// How many addresses it has: a power of two.
    pub size: u64,
}

impl Bar {
    /// Whether a BAR at place `bar` of `name` can be like this.
    pub(super) fn check(self, name: &'static str, bar: usize) -> Result<(), PciError> {
        let Self { space, size } = self;
        if !size.is_power_of_two() || size < space.least() || size > space.most() {
            return Err(PciError::Size {
                name,
                bar,
                size,
                least: space.least(),
                most: space.most(),
            });
        }
        if space == BarSpace::Memory64 && bar + 1 >= BARS {
            return Err(PciError::UpperHalf { name, bar });
        }
        Ok(())
    }

    /// The bits that a guest can write.
    pub(super) const fn writable(self) -> u64 {
        !(self.size - 1)
    }

    /// The addresses that a register's value means, if it means any: not below the first page of
    /// its space that is 0, and not where the space ends.
    pub(super) fn decode(self, value: u64) -> Option<BusRange> {
        let base = value & self.writable();
        let range = BusRange::new(base, self.size).ok()?;
        (base != 0 && range.last() <= self.space.limit()).then_some(range)
    }
}
