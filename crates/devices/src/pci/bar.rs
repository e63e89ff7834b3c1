//! Base address registers: the bits that a guest can write, and the addresses that they select (PCI 3.0, 6.2.5.1).

use super::error::PciError;
use vmbell::bus::BusRange;

/// The number of BAR registers in a header of type 0.
pub const BARS: usize = 6;

/// The address space of a BAR, and the kind of its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarSpace {
    /// I/O ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory at any 64-bit address; takes two registers.
    Memory64,
}

/// The bit that marks a memory BAR as prefetchable.
const PREFETCHABLE: u64 = 1 << 3;

impl BarSpace {
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

    /// The last address that a BAR can use. A BAR at the end of the space is not mapped, because its register has that
    /// value while a guest determines the size.
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
    /// The address space.
    pub space: BarSpace,
    /// The size in bytes or ports: a power of two.
    pub size: u64,
    /// Whether reads have no side effects, so that the guest may read ahead. Has no meaning for ports.
    pub prefetchable: bool,
}

impl Bar {
    /// Checks whether register `bar` of the function `name` can be this BAR.
    pub(super) fn check(self, name: &'static str, bar: usize) -> Result<(), PciError> {
        let Self { space, size, .. } = self;
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

    /// The read-only bits of the register, which encode its kind.
    pub(super) const fn kind_bits(self) -> u64 {
        let space = match self.space {
            BarSpace::Io => return 0b01,
            BarSpace::Memory32 => 0b000,
            BarSpace::Memory64 => 0b100,
        };
        space | if self.prefetchable { PREFETCHABLE } else { 0 }
    }

    /// The bits that a guest can write.
    pub(super) const fn writable(self) -> u64 {
        !(self.size - 1)
    }

    /// Returns the addresses that a register's value selects; `None` for the address 0 and for the end of the space,
    /// where a BAR is not mapped.
    pub(super) fn decode(self, value: u64) -> Option<BusRange> {
        let base = value & self.writable();
        let range = BusRange::new(base, self.size).ok()?;
        (base != 0 && range.last() <= self.space.limit()).then_some(range)
    }
}
