//! Access to the configuration space of PCI bus 0: through ports, or in memory if a VMM has no such ports.

use super::cpu::{in32, out16, out32};
use super::memory::Registers;
use crate::pci::{Config, LEN};

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;
const ENABLE: u32 = 1 << 31;
/// Each function has 4 KiB in memory, and bus 0 has 256 functions.
const FUNCTION_SIZE: u64 = 4096;
const BUS_SIZE: u64 = 256 * FUNCTION_SIZE;

/// How the configuration space is reached.
#[derive(Clone, Copy)]
pub enum Access {
    Ports,
    Memory(Registers),
}

impl Access {
    /// The access method that finds a host bridge. `None` without a PCI bus.
    pub fn find(mcfg: Option<u64>) -> Option<Self> {
        let memory = || Some(Self::Memory(Registers::new(mcfg?, BUS_SIZE)?));
        let leads = |access: &Self| !matches!(access.read(0, 0), 0 | u32::MAX);
        Some(Self::Ports)
            .filter(leads)
            .or_else(|| memory().filter(leads))
    }

    /// The name of the access method in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ports => "pci-cf8",
            Self::Memory(_) => "pci-ecam",
        }
    }

    fn read(self, function: u8, register: u8) -> u32 {
        match self {
            Self::Ports => {
                out32(ADDRESS, selector(function, register));
                in32(DATA)
            }
            Self::Memory(space) => {
                space.read32(u64::from(function) * FUNCTION_SIZE + u64::from(register & 0xfc))
            }
        }
    }

    /// Writes two bytes. A four-byte write would also clear bits of the status register next to COMMAND, and some VMMs
    /// refuse it because of its length.
    pub fn write16(self, function: u8, register: u8, value: u16) {
        match self {
            Self::Ports => {
                out32(ADDRESS, selector(function, register));
                out16(DATA + u16::from(register & 2), value);
            }
            Self::Memory(space) => {
                space.write16(
                    u64::from(function) * FUNCTION_SIZE + u64::from(register),
                    value,
                );
            }
        }
    }

    /// Reads a function's configuration space. `None` if the function does not exist.
    pub fn config(self, function: u8) -> Option<Config> {
        if matches!(self.read(function, 0), 0 | u32::MAX) {
            return None;
        }
        let mut config = Config([0; LEN]);
        for (register, bytes) in (0..=252).step_by(4).zip(config.0.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&self.read(function, register).to_le_bytes());
        }
        Some(config)
    }

    /// The functions on bus 0.
    pub fn functions(self) -> impl Iterator<Item = (u8, Config)> {
        (0..32_u8).flat_map(move |device| {
            let first = self.config(8 * device);
            let more = first.as_ref().is_some_and(Config::is_multifunction);
            let rest = if more { 1..8 } else { 0..0 };
            first.map(|config| (8 * device, config)).into_iter().chain(
                rest.filter_map(move |part| {
                    Some((8 * device + part, self.config(8 * device + part)?))
                }),
            )
        })
    }
}

fn selector(function: u8, register: u8) -> u32 {
    ENABLE | u32::from(function) << 8 | u32::from(register & 0xfc)
}
