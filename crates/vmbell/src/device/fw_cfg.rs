//! QEMU's firmware configuration, as far as a guest without firmware asks for it: a 16-bit
//! selector at 0x510, and the chosen item byte by byte at 0x511 (QEMU `docs/specs/fw_cfg.rst`).

use std::sync::{Mutex, PoisonError};

use crate::bus::BusDevice;

/// Its ports: two from here.
pub const FW_CFG_PORTS: u64 = 0x510;

const SIGNATURE: u16 = 0;
/// Which interfaces there are: bit 0 is the traditional one, by ports.
const INTERFACES: u16 = 1;
const RAM_SIZE: u16 = 3;
const CPUS: u16 = 5;
const MAX_CPUS: u16 = 0x0f;

/// The device. Items that it does not have read as zeros, also the one (0x11) by which
/// kvm-unit-tests limits what it uses above 4 GiB: 0 is no limit.
#[derive(Debug)]
pub struct FwCfg {
    cpus: u16,
    ram_size: u64,
    state: Mutex<Selected>,
}

#[derive(Debug, Default)]
struct Selected {
    item: u16,
    offset: usize,
}

impl FwCfg {
    /// Answers for a machine with so many vCPUs and bytes of RAM.
    pub fn new(cpus: u16, ram_size: u64) -> Self {
        Self {
            cpus,
            ram_size,
            state: Mutex::default(),
        }
    }

    /// An item, padded with zeros.
    fn item(&self, item: u16) -> [u8; 8] {
        match item {
            SIGNATURE => u64::from(u32::from_le_bytes(*b"QEMU")),
            INTERFACES => 1,
            RAM_SIZE => self.ram_size,
            CPUS | MAX_CPUS => u64::from(self.cpus),
            _ => 0,
        }
        .to_le_bytes()
    }

    fn next(&self, selected: &mut Selected) -> u8 {
        let byte = self.item(selected.item).get(selected.offset).copied();
        selected.offset = selected.offset.saturating_add(1);
        byte.unwrap_or_default()
    }
}

impl BusDevice for FwCfg {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let (1, [byte]) = (offset, data) {
            let mut selected = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            *byte = self.next(&mut selected);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let (0, Ok(item)) = (offset, <[u8; 2]>::try_from(data)) {
            let mut selected = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            *selected = Selected {
                item: u16::from_le_bytes(item),
                offset: 0,
            };
        }
    }
}

#[cfg(test)]
#[path = "fw_cfg_test.rs"]
mod tests;
