//! The list of capabilities that a function shows to the guest (PCI 3.0, 6.7). The list computes the offsets: each
//! capability follows those before it, at a multiple of 4. A host's device keeps the offsets that it has, because the
//! registers that are not emulated are at these offsets. Made on the thread that makes the function.

use super::capability::{Capability, CapabilityError, FIRST, Found, check_beside};
use super::config::CONFIG_SIZE;

/// Capabilities with their offsets in configuration space, none of which overlap.
#[derive(Clone, Debug, Default)]
pub struct CapabilityList {
    placed: Vec<(Found, Capability)>,
}

impl CapabilityList {
    /// Adds a capability after the highest one and returns its offset, a multiple of 4 from 0x40 on.
    ///
    /// # Errors
    ///
    /// If configuration space has too few bytes left, or there is a second capability for MSI or MSI-X.
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

    /// Adds a capability at an offset, where a host's device has it.
    ///
    /// # Errors
    ///
    /// If the offset is not a multiple of 4 from 0x40 on, the capability ends outside of configuration space or overlaps
    /// another one, or there is a second capability for MSI or MSI-X.
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
#[path = "capability_list_test.rs"]
mod tests;
