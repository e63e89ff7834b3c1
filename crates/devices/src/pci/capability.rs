//! The list of capabilities in configuration space (PCI 3.0, 6.7): finds those of a device, which may be broken or
//! hostile, and describes those that a function shows to the guest. No state; runs on the caller's thread.

use super::config::{CAPABILITY_POINTER, CONFIG_SIZE, STATUS, STATUS_CAPABILITIES};

/// The ID of the MSI capability.
pub const CAPABILITY_MSI: u8 = 0x05;
/// The ID of the MSI-X capability.
pub const CAPABILITY_MSIX: u8 = 0x11;

/// The length of an MSI-X capability in bytes.
const MSIX_LENGTH: usize = 12;
/// Bits of MSI's message control register: the address has 64 bits, and vectors have masks.
pub(super) const MSI_WIDE: u16 = 1 << 7;
pub(super) const MSI_MASKABLE: u16 = 1 << 8;

/// The first offset behind the header.
const FIRST: u8 = 0x40;
/// Bytes of the ID and of the pointer to the next capability.
pub(super) const HEADER: usize = 2;

/// A capability that a function shows to the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its offset in configuration space: a multiple of 4 from 0x40 on.
    pub at: u8,
    /// Its ID.
    pub id: u8,
    /// The first values of the emulated registers, from offset 2 of the capability on. What is behind them belongs to
    /// the function, if it has [registers of its own](super::Registers::own).
    pub registers: Vec<u8>,
    /// The bits of these registers that the guest can write.
    pub writable: Vec<u8>,
}

/// A capability of a device, of which [`find_capabilities`] has checked that it is inside configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    id: u8,
    at: u8,
    len: usize,
}

impl Found {
    /// Its ID.
    pub const fn id(self) -> u8 {
        self.id
    }

    /// Its offset: a multiple of 4 from 0x40 on.
    pub const fn at(self) -> u8 {
        self.at
    }

    /// The offset behind its last byte if it is MSI or MSI-X; of others the one behind the two bytes of the header.
    pub fn end(self) -> usize {
        usize::from(self.at) + self.len
    }
}

/// What is wrong with a device's list of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// A pointer leads into the header.
    #[error("the capability pointer at {pointer:#x} leads to {to:#x}, inside the header")]
    Header {
        /// The offset of the pointer.
        pointer: u8,
        /// Where it leads.
        to: u8,
    },
    /// A pointer leads to a capability that came before.
    #[error("the capability pointer at {pointer:#x} leads back to {to:#x}")]
    Loop {
        /// The offset of the pointer.
        pointer: u8,
        /// Where it leads.
        to: u8,
    },
    /// A capability is longer than the rest of configuration space.
    #[error("capability {id:#04x} at {at:#x} has {len} bytes and ends behind 0xff")]
    Long {
        /// The ID of the capability.
        id: u8,
        /// Its offset.
        at: u8,
        /// Its length in bytes.
        len: usize,
    },
    /// Two capabilities have bytes in common.
    #[error("capability {id:#04x} at {at:#x} overlaps the one at {other:#x}")]
    Overlap {
        /// The ID of the first one.
        id: u8,
        /// Its offset.
        at: u8,
        /// The offset of the other one.
        other: u8,
    },
    /// The device has two capabilities of which there can be one.
    #[error("two capabilities {id:#04x}, at {first:#x} and at {second:#x}")]
    Twice {
        /// Their ID.
        id: u8,
        /// The offset of the first one.
        first: u8,
        /// The offset of the second one.
        second: u8,
    },
}

/// The capabilities of a device with these bytes of configuration space, in the order of its list. Fails with what is
/// wrong with the list. The two low bits of pointers are reserved and ignored, as the specification says.
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
    let found = Found { id, at, len };
    if found.end() > CONFIG_SIZE {
        return Err(CapabilityError::Long { id, at, len });
    }
    Ok(found)
}

/// The length in bytes of an MSI capability with this message control register (PCI 3.0, figure 6-9).
const fn msi_length(control: u16) -> usize {
    let data_end = if control & MSI_WIDE == 0 { 10 } else { 14 };
    // Two bytes are reserved behind the data.
    data_end + if control & MSI_MASKABLE == 0 { 0 } else { 10 }
}

/// Checks that the device can have `new` beside the capabilities before it.
fn check_beside(found: &[Found], new: Found) -> Result<(), CapabilityError> {
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
