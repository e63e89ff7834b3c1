//! The MSI-X capability (PCI 3.0, 6.8.2): the registers in configuration space, and where in the BARs the table of
//! messages and the pending bits are. Runs on the thread of the vCPU that makes the access.

use super::bar::{BARS, Bar, BarSpace};
use super::capability::{CAPABILITY_MSIX, CONFIG_SIZE, Capability, CapabilityError, Found};
use super::config::ConfigSpace;
use super::registers::CapabilityList;

/// Bits of the message control register, and its field with the number of vectors minus one.
const ENABLE: u16 = 1 << 15;
const MASK: u16 = 1 << 14;
const COUNT: u16 = (1 << 11) - 1;

const CONTROL: usize = 2;
/// The offsets of the registers that locate the table and the pending bits, and the bits that select the BAR.
const TABLE: usize = 4;
const PENDING: usize = 8;
const BAR: u32 = 0b111;

/// Bytes of an entry of the table.
pub(super) const ENTRY: u64 = 16;

/// A part of a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarPart {
    /// The number of the BAR.
    pub bar: usize,
    /// Where in the BAR the part begins, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

/// What is wrong with a device's MSI-X capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MsixError {
    /// The BAR does not exist, or is an I/O BAR.
    #[error("the {part} of msi-x is in BAR{bar}, which is not a memory BAR")]
    Bar {
        /// The table or the pending bits.
        part: &'static str,
        /// The number of the BAR.
        bar: usize,
    },
    /// The BAR is too small.
    #[error(
        "the {part} of msi-x, {len} bytes at {offset:#x}, ends past the end of BAR{bar}, which has {size}"
    )]
    Size {
        /// The table or the pending bits.
        part: &'static str,
        /// The number of the BAR.
        bar: usize,
        /// Where in the BAR the part begins, in bytes.
        offset: u64,
        /// The part's length in bytes.
        len: u64,
        /// The size of the BAR in bytes.
        size: u64,
    },
    /// The table and the pending bits have bytes in common.
    #[error("the table and the pending bits of msi-x overlap in BAR{bar}")]
    Overlap {
        /// The number of the BAR.
        bar: usize,
    },
}

/// The MSI-X capability of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsixCapability {
    at: u8,
    count: u16,
    table: BarPart,
    pending: BarPart,
    registers: [u32; 2],
}

/// What the guest has set up in the message control register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsixControl {
    /// Whether MSI-X is on.
    pub enabled: bool,
    /// Whether all vectors are masked, in addition to their own masks.
    pub masked: bool,
}

impl MsixCapability {
    /// Adds the capability of an emulated function to `list`. It has 1 to 2048 vectors; the table and the pending bits
    /// are each at a multiple of 8 bytes in a BAR.
    ///
    /// # Errors
    ///
    /// If the list has no room for the capability.
    pub fn add(
        list: &mut CapabilityList,
        vectors: u16,
        table: (u8, u32),
        pending: (u8, u32),
    ) -> Result<Self, CapabilityError> {
        let part = |(bar, offset): (u8, u32), len| BarPart {
            bar: bar.into(),
            offset: offset.into(),
            len,
        };
        let register = |(bar, offset): (u8, u32)| offset & !BAR | u32::from(bar) & BAR;
        let mut msix = Self {
            at: 0,
            count: vectors,
            table: part(table, u64::from(vectors) * ENTRY),
            pending: part(pending, pending_len(vectors)),
            registers: [table, pending].map(register),
        };
        msix.at = list.add(msix.shown())?;
        Ok(msix)
    }

    /// The MSI-X capability among those `found` in the bytes of configuration space, if there is one. Fails if the
    /// table or the pending bits are not inside a memory BAR of `bars`.
    pub fn find(
        config: &[u8; CONFIG_SIZE],
        found: &[Found],
        bars: &[Option<Bar>; BARS],
    ) -> Result<Option<Self>, MsixError> {
        let Some(at) = found.iter().find(|found| found.id() == CAPABILITY_MSIX) else {
            return Ok(None);
        };
        let from = usize::from(at.at());
        let byte = |offset| config[from + offset];
        let count = (u16::from_le_bytes([byte(CONTROL), byte(CONTROL + 1)]) & COUNT) + 1;
        let registers = [TABLE, PENDING].map(|offset| {
            u32::from_le_bytes([
                byte(offset),
                byte(offset + 1),
                byte(offset + 2),
                byte(offset + 3),
            ])
        });
        let table = part("table", registers[0], u64::from(count) * ENTRY, bars)?;
        let pending = part("pending bits", registers[1], pending_len(count), bars)?;
        if table.bar == pending.bar
            && table.offset < pending.offset + pending.len
            && pending.offset < table.offset + table.len
        {
            return Err(MsixError::Overlap { bar: table.bar });
        }
        Ok(Some(Self {
            at: at.at(),
            count,
            table,
            pending,
            registers,
        }))
    }

    /// How many vectors the device has: 1 to 2048.
    pub const fn vectors(self) -> u16 {
        self.count
    }

    /// Where the table is.
    pub const fn table(self) -> BarPart {
        self.table
    }

    /// Where the pending bits are. Their length is a multiple of eight bytes.
    pub const fn pending(self) -> BarPart {
        self.pending
    }

    /// The capability as the guest finds it: off.
    pub fn shown(self) -> Capability {
        let mut registers = (self.count - 1).to_le_bytes().to_vec();
        registers.extend(self.registers.iter().flat_map(|word| word.to_le_bytes()));
        let mut writable = vec![0; registers.len()];
        writable[..2].copy_from_slice(&(ENABLE | MASK).to_le_bytes());
        Capability {
            id: CAPABILITY_MSIX,
            registers,
            writable,
            own: 0,
        }
    }

    /// What the guest has set up.
    pub fn control(self, config: &ConfigSpace) -> MsixControl {
        let control = config.word(usize::from(self.at) + CONTROL);
        MsixControl {
            enabled: control & ENABLE != 0,
            masked: control & MASK != 0,
        }
    }
}

/// The length of the pending bits in bytes.
fn pending_len(vectors: u16) -> u64 {
    u64::from(vectors).div_ceil(64) * 8
}

/// The part of a BAR that a register describes.
fn part(
    part: &'static str,
    register: u32,
    len: u64,
    bars: &[Option<Bar>; BARS],
) -> Result<BarPart, MsixError> {
    let bar = usize::from((register & BAR) as u8);
    let offset = u64::from(register & !BAR);
    let size = match bars.get(bar) {
        Some(Some(there)) if there.space != BarSpace::Io => there.size,
        _ => return Err(MsixError::Bar { part, bar }),
    };
    if offset + len > size {
        return Err(MsixError::Size {
            part,
            bar,
            offset,
            len,
            size,
        });
    }
    Ok(BarPart { bar, offset, len })
}

#[cfg(test)]
#[path = "msix_test.rs"]
mod tests;
