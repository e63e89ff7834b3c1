//! QEMU's firmware configuration device, as far as a guest without firmware uses it: a 16-bit selector at port 0x510,
//! and the bytes of the selected item, one at a time, at port 0x511 (QEMU `docs/specs/fw_cfg.rst`).

use vmbell::bus::BusDevice;
use vmbell::sync::Mutex;

/// The first port of the device.
pub const FW_CFG_PORTS: u64 = 0x510;

const SIGNATURE: u16 = 0;
/// The item with the device's interfaces: bit 0 is the traditional interface, through ports.
const INTERFACES: u16 = 1;
const RAM_SIZE: u16 = 3;
const CPUS: u16 = 5;
const MAX_CPUS: u16 = 0x0f;

/// The device. Runs on the thread of the vCPU that accesses it. Items that it does not have read as zeros, including
/// item 0x11, with which kvm-unit-tests limits its memory above 4 GiB: 0 means no limit.
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
    /// Creates the device of a machine with `cpus` vCPUs and `ram_size` bytes of RAM.
    pub fn new(cpus: u16, ram_size: u64) -> Self {
        Self {
            cpus,
            ram_size,
            state: Mutex::default(),
        }
    }

    /// The bytes of an item, padded with zeros.
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
            let mut selected = self.state.lock();
            *byte = self.next(&mut selected);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let (0, Ok(item)) = (offset, <[u8; 2]>::try_from(data)) {
            let mut selected = self.state.lock();
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
