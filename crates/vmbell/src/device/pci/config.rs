//! The configuration space of a function: 256 bytes, few of which a guest can change
//! (PCI 3.0, 6.1).

use super::bar::{BARS, Bar, BarSpace};
use crate::bus::BusRange;

/// Offset of the command register.
pub const COMMAND: usize = 0x04;
const FIRST_BAR: usize = 0x10;
const INTERRUPT_LINE: usize = 0x3c;
const SIZE: usize = 256;

const IO_DECODE: u16 = 1 << 0;
const MEMORY_DECODE: u16 = 1 << 1;
/// The writable bits of the command register: I/O decode, memory decode and bus mastering.
const COMMAND_BITS: u16 = IO_DECODE | MEMORY_DECODE | 1 << 2;

/// The identification registers of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Base class and subclass.
    pub class: u16,
}

/// The registers of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; SIZE],
    writable: [u8; SIZE],
    bars: [Option<Bar>; BARS],
}

impl ConfigSpace {
    /// A header of type 0 with all BARs 0 and decoding disabled.
    pub fn new(identity: Identity, bars: [Option<Bar>; BARS]) -> Self {
        let mut space = Self {
            bytes: [0; SIZE],
            writable: [0; SIZE],
            bars,
        };
        put(&mut space.bytes, 0, &identity.vendor.to_le_bytes());
        put(&mut space.bytes, 2, &identity.device.to_le_bytes());
        put(&mut space.bytes, 0x0a, &identity.class.to_le_bytes());
        put(&mut space.writable, COMMAND, &COMMAND_BITS.to_le_bytes());
        put(&mut space.writable, INTERRUPT_LINE, &[0xff]);
        for (index, bar) in bars.into_iter().enumerate() {
            let Some(bar) = bar else { continue };
            let (at, len) = register(index, bar);
            put(
                &mut space.writable,
                at,
                &bar.writable().to_le_bytes()[..len],
            );
            put(&mut space.bytes, at, &bar.kind_bits().to_le_bytes()[..len]);
        }
        space
    }

    /// Reads at any offset and width; bytes behind the end are 0xff.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (index, byte) in data.iter_mut().enumerate() {
            let register = offset.checked_add(index).and_then(|at| self.bytes.get(at));
            *byte = register.copied().unwrap_or(0xff);
        }
    }

    /// Writes the writable bits, at any offset and width.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        for (index, byte) in data.iter().enumerate() {
            let Some(at) = offset.checked_add(index) else {
                return;
            };
            if let (Some(register), Some(mask)) = (self.bytes.get_mut(at), self.writable.get(at)) {
                *register = *register & !mask | byte & mask;
            }
        }
    }

    /// The range of a BAR; `None` if its decode bit is clear or its register has no valid address.
    pub fn placed(&self, index: usize) -> Option<BusRange> {
        let bar = (*self.bars.get(index)?)?;
        let mut command = [0; 2];
        self.read(COMMAND, &mut command);
        let decode = match bar.space {
            BarSpace::Io => IO_DECODE,
            BarSpace::Memory32 | BarSpace::Memory64 => MEMORY_DECODE,
        };
        if u16::from_le_bytes(command) & decode == 0 {
            return None;
        }
        let (at, len) = register(index, bar);
        let mut value = [0; 8];
        self.read(at, &mut value[..len]);
        bar.decode(u64::from_le_bytes(value))
    }

    /// Sets a BAR, as firmware would.
    pub fn assign(&mut self, index: usize, base: u64) {
        if let Some(Some(bar)) = self.bars.get(index) {
            let (at, len) = register(index, *bar);
            self.write(at, &base.to_le_bytes()[..len]);
        }
    }

    /// Sets the decode bits that the BARs need, as firmware would.
    pub fn enable_decode(&mut self) {
        let spaces = self.bars.iter().flatten().map(|bar| bar.space);
        let command = spaces.fold(0, |command, space| {
            command
                | match space {
                    BarSpace::Io => IO_DECODE,
                    BarSpace::Memory32 | BarSpace::Memory64 => MEMORY_DECODE,
                }
        });
        self.write(COMMAND, &command.to_le_bytes());
    }
}

/// Offset and width of a BAR's register.
const fn register(index: usize, bar: Bar) -> (usize, usize) {
    let len = match bar.space {
        BarSpace::Io | BarSpace::Memory32 => 4,
        BarSpace::Memory64 => 8,
    };
    (FIRST_BAR + 4 * index, len)
}

fn put(bytes: &mut [u8; SIZE], at: usize, data: &[u8]) {
    bytes[at..at + data.len()].copy_from_slice(data);
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
