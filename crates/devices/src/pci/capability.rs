//! The list of capabilities in configuration space (PCI 3.0, 6.7): finds the capabilities of a device, which may be
//! broken or hostile, and describes the capabilities that a function shows to the guest. No state; runs on the caller's
//! thread.

/// Bytes of configuration space.
pub const CONFIG_SIZE: usize = 256;
/// Offset of the status register, and its bit for a list of capabilities.
pub(super) const STATUS: usize = 0x06;
pub(super) const STATUS_CAPABILITIES: u8 = 1 << 4;
/// Offset of the pointer to the first capability.
pub(super) const CAPABILITY_POINTER: u8 = 0x34;

/// The ID of the MSI capability.
pub const CAPABILITY_MSI: u8 = 0x05;
/// The ID of the MSI-X capability.
pub const CAPABILITY_MSIX: u8 = 0x11;

/// The length of an MSI-X capability in bytes.
const MSIX_LENGTH: usize = 12;
/// Bits of MSI's message control register: the address has 64 bits, and vectors have masks.
pub(super) const MSI_WIDE: u16 = 1 << 7;
pub(super) const MSI_MASKABLE: u16 = 1 << 8;

/// The first offset after the header.
pub(super) const FIRST: u8 = 0x40;
/// Bytes of the ID and of the pointer to the next capability.
pub(super) const HEADER: usize = 2;

/// A capability that a function shows to the guest. The [list](super::CapabilityList) stores its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The capability's ID.
    pub id: u8,
    /// The first values of the emulated registers, from offset 2 of the capability on.
    pub registers: Vec<u8>,
    /// The bits of these registers that the guest can write. Registers past the end of this list are read-only.
    pub writable: Vec<u8>,
    /// How many bytes of the capability follow these registers. The function answers for them, if it has
    /// [own registers](super::Registers::own).
    pub own: usize,
}

impl Capability {
    /// The capability's length in bytes.
    pub(super) fn len(&self) -> usize {
        HEADER + self.registers.len() + self.own
    }
}

/// A capability of a device. [`find_capabilities`] has checked that it is inside configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    id: u8,
    at: u8,
    len: usize,
}

impl Found {
    /// Creates a capability of this length. Fails if it ends outside of configuration space.
    pub(super) fn new(id: u8, at: u8, len: usize) -> Result<Self, CapabilityError> {
        let found = Self { id, at, len };
        if found.end() > CONFIG_SIZE {
            return Err(CapabilityError::Long { id, at, len });
        }
        Ok(found)
    }

    /// The capability's ID.
    pub const fn id(self) -> u8 {
        self.id
    }

    /// The capability's offset: a multiple of 4 from 0x40 on.
    pub const fn at(self) -> u8 {
        self.at
    }

    /// The offset after the capability's last byte for MSI and MSI-X; for others, after the two bytes of the header.
    pub fn end(self) -> usize {
        usize::from(self.at) + self.len
    }
}

/// What is wrong with a list of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapabilityError {
    /// A pointer leads into the header.
    #[error("the capability pointer at {pointer:#x} leads to {to:#x}, inside the header")]
    Header {
        /// The offset of the pointer.
        pointer: u8,
        /// Where the pointer leads.
        to: u8,
    },
    /// A pointer leads to a capability that came before.
    #[error("the capability pointer at {pointer:#x} leads back to {to:#x}")]
    Loop {
        /// The offset of the pointer.
        pointer: u8,
        /// Where the pointer leads.
        to: u8,
    },
    /// A capability is longer than the rest of configuration space.
    #[error("capability {id:#04x} at {at:#x} has {len} bytes and ends past 0xff")]
    Long {
        /// The ID of the capability.
        id: u8,
        /// The capability's offset.
        at: u8,
        /// The capability's length in bytes.
        len: usize,
    },
    /// A capability cannot be added, because there is too little room after the others.
    #[error("capability {id:#04x} has {len} bytes, and configuration space has room for {left}")]
    NoRoom {
        /// The ID of the capability.
        id: u8,
        /// The capability's length in bytes.
        len: usize,
        /// The bytes that are free.
        left: usize,
    },
    /// A capability cannot be at this offset.
    #[error("capability {id:#04x} cannot be at {at:#x}, but at a multiple of 4 from 0x40 on")]
    Offset {
        /// The ID of the capability.
        id: u8,
        /// The capability's offset.
        at: u8,
    },
    /// Two capabilities have bytes in common.
    #[error("capability {id:#04x} at {at:#x} overlaps the one at {other:#x}")]
    Overlap {
        /// The ID of the first capability.
        id: u8,
        /// The first capability's offset.
        at: u8,
        /// The second capability's offset.
        other: u8,
    },
    /// The device has two capabilities of a kind that may exist only once.
    #[error("two capabilities {id:#04x}, at {first:#x} and at {second:#x}")]
    Twice {
        /// The ID of both capabilities.
        id: u8,
        /// The offset of the first capability.
        first: u8,
        /// The offset of the second capability.
        second: u8,
    },
}

/// Returns the capabilities in these bytes of a device's configuration space, in the order of the device's list, or
/// what is wrong with the list. The two low bits of pointers are reserved and ignored, as the specification says.
pub fn find_capabilities(config: &[u8; CONFIG_SIZE]) -> Result<Vec<Found>, CapabilityError> {
    let mut found: Vec<Found> = Vec::new();
    if config[STATUS] & STATUS_CAPABILITIES == 0 {
        return Ok(found);
    }
    let mut pointer = CAPABILITY_POINTER;
    loop {
        let to = config[usize::from(pointer)] & !3;
        if to == 0 {
            return Ok(found);
        }
        if to < FIRST {
            return Err(CapabilityError::Header { pointer, to });
        }
        if found.iter().any(|before| before.at == to) {
            return Err(CapabilityError::Loop { pointer, to });
        }
        let next = at(config, to)?;
        check_beside(&found, next)?;
        found.push(next);
        pointer = to + 1;
    }
}

/// The capability at an offset, which is a multiple of 4.
fn at(config: &[u8; CONFIG_SIZE], at: u8) -> Result<Found, CapabilityError> {
    let from = usize::from(at);
    let id = config[from];
    let control = u16::from_le_bytes([config[from + 2], config[from + 3]]);
    let len = match id {
        CAPABILITY_MSI => msi_length(control),
        CAPABILITY_MSIX => MSIX_LENGTH,
        _ => HEADER,
    };
    Found::new(id, at, len)
}

/// The length in bytes of an MSI capability with this message control register (PCI 3.0, figure 6-9).
const fn msi_length(control: u16) -> usize {
    let data_end = if control & MSI_WIDE == 0 { 10 } else { 14 };
    // Two bytes are reserved after the data.
    data_end + if control & MSI_MASKABLE == 0 { 0 } else { 10 }
}

/// Checks that the device can have `new` in addition to the capabilities before it.
pub(super) fn check_beside<'f>(
    found: impl IntoIterator<Item = &'f Found>,
    new: Found,
) -> Result<(), CapabilityError> {
    for before in found {
        let id = new.id;
        if id == before.id && matches!(id, CAPABILITY_MSI | CAPABILITY_MSIX) {
            return Err(CapabilityError::Twice {
                id,
                first: before.at,
                second: new.at,
            });
        }
        if usize::from(before.at) < new.end() && usize::from(new.at) < before.end() {
            return Err(CapabilityError::Overlap {
                id: before.id,
                at: before.at,
                other: new.at,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "capability_test.rs"]
mod tests;
