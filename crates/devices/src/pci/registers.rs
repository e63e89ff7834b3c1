//! What a function adds to a plain header of configuration space: an interrupt pin, its own registers, and the list of
//! capabilities (PCI 3.0, 6.7).
//!
//! The list computes the offsets: each capability follows the previous ones, at a multiple of 4. The capabilities of a
//! host's device keep their offsets, because the registers that are not emulated are there. The list is built on the
//! thread that creates the function.

use super::capability::{CONFIG_SIZE, Capability, CapabilityError, FIRST, Found, check_beside};

/// An interrupt pin (PCI 3.0, 2.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// INTA#.
    A = 1,
    /// INTB#.
    B,
    /// INTC#.
    C,
    /// INTD#.
    D,
}

impl Pin {
    /// The pin for a value of the interrupt pin register; `None` if the value is not 1 to 4.
    pub const fn new(register: u8) -> Option<Self> {
        match register {
            1 => Some(Self::A),
            2 => Some(Self::B),
            3 => Some(Self::C),
            4 => Some(Self::D),
            _ => None,
        }
    }

    /// The value of the interrupt pin register.
    pub const fn register(self) -> u8 {
        self as u8
    }
}

/// What a function adds to its header; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// The interrupt pin.
    pub pin: Option<Pin>,
    /// The capabilities.
    pub capabilities: CapabilityList,
    /// Whether the function itself answers for the registers that are not emulated, with
    /// [`read_config`](super::PciFunction::read_config) and [`write_config`](super::PciFunction::write_config). The
    /// emulated registers are vendor, device, command, header type, BARs, expansion ROM (there is no ROM), interrupt
    /// line and pin, and each capability's header and `registers`.
    pub own: bool,
}

/// Capabilities with their offsets in configuration space. They do not overlap.
#[derive(Clone, Debug, Default)]
pub struct CapabilityList {
    placed: Vec<(Found, Capability)>,
}

impl CapabilityList {
    /// Adds a capability after the highest one and returns its offset, a multiple of 4 from 0x40 on.
    ///
    /// # Errors
    ///
    /// If configuration space has too few bytes left, or the capability is a second one for MSI or MSI-X.
    pub fn add(&mut self, capability: Capability) -> Result<u8, CapabilityError> {
        let end = self.placed.iter().map(|(found, _)| found.end()).max();
        let at = end.unwrap_or(FIRST.into()).next_multiple_of(4);
        let (id, len) = (capability.id, capability.len());
        let left = CONFIG_SIZE.saturating_sub(at);
        let at = u8::try_from(at).map_err(|_| CapabilityError::NoRoom { id, len, left })?;
        if len > left {
            return Err(CapabilityError::NoRoom { id, len, left });
        }
        self.add_at(at, capability)?;
        Ok(at)
    }

    /// Adds a capability at a given offset: the offset that a host's device has.
    ///
    /// # Errors
    ///
    /// If the offset is below 0x40 or not a multiple of 4, the capability ends outside of configuration space or
    /// overlaps another one, or the capability is a second one for MSI or MSI-X.
    pub fn add_at(&mut self, at: u8, capability: Capability) -> Result<(), CapabilityError> {
        let id = capability.id;
        if at < FIRST || !at.is_multiple_of(4) {
            return Err(CapabilityError::Offset { id, at });
        }
        let found = Found::new(id, at, capability.len())?;
        check_beside(self.placed.iter().map(|(found, _)| found), found)?;
        self.placed.push((found, capability));
        Ok(())
    }

    /// The capabilities with their offsets, in the order of the guest's list.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &Capability)> {
        let placed = self.placed.iter();
        placed.map(|(found, capability)| (found.at(), capability))
    }
}

#[cfg(test)]
#[path = "registers_test.rs"]
mod tests;
