//! Configuration space in memory (ECAM, PCI Express 5.0, 7.2.2), on boards without configuration ports. An access is one
//! exit here, and two by the ports.
//!
//! Bits 19 to 15 of an address select the slot, bits 14 to 12 the function, and the rest the register. Functions have the
//! 256 registers of PCI 3.0; those above read as ones. It runs on the thread of the vCPU that configures.

use std::sync::Arc;

use vmbell::bus::BusDevice;

use super::root::{ConfigPlace, PciRoot};

/// Bytes of one bus.
pub const CONFIG_MEMORY_LEN: u64 = 1 << 20;

const FUNCTION_BITS: u32 = 12;
const SLOT_BITS: u32 = 15;
const FUNCTIONS: u64 = 7;
const REGISTERS: u64 = (1 << FUNCTION_BITS) - 1;

/// The memory of a root's only bus.
#[derive(Debug)]
pub(super) struct ConfigMemory(Arc<PciRoot>);

impl ConfigMemory {
    pub(super) fn new(root: &Arc<PciRoot>) -> Self {
        Self(Arc::clone(root))
    }
}

/// The registers that an offset means; `None` for a function that no slot has.
fn place(offset: u64) -> Option<ConfigPlace> {
    if offset >> FUNCTION_BITS & FUNCTIONS != 0 {
        return None;
    }
    let slot = usize::try_from(offset >> SLOT_BITS).ok()?;
    let register = usize::try_from(offset & REGISTERS).ok()?;
    Some(ConfigPlace { slot, register })
}

impl BusDevice for ConfigMemory {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match place(offset) {
            Some(place) => self.0.read_config(place, data),
            None => data.fill(0xff),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let Some(place) = place(offset) {
            self.0.write_config(place, data);
        }
    }
}

#[cfg(test)]
#[path = "ecam_test.rs"]
mod tests;
