//! The configuration space of a function: 256 bytes, few of which a guest can change (PCI 3.0, 6.1). A function may
//! emulate some of them itself.

use super::bar::{BARS, Bar, BarSpace};
use super::capability::{
    CAPABILITY_POINTER, CONFIG_SIZE, Capability, HEADER, STATUS, STATUS_CAPABILITIES,
};
use super::registers::Registers;
use vmbell::bus::BusRange;

/// Offset of the command register.
pub const COMMAND: usize = 0x04;
/// Offset of the interrupt line register.
pub const INTERRUPT_LINE: usize = 0x3c;
const HEADER_TYPE: usize = 0x0e;
const FIRST_BAR: usize = 0x10;
const CARDBUS: usize = 0x28;
const ROM: usize = 0x30;
const INTERRUPT_PIN: usize = 0x3d;

/// The bit of the command register with which a guest turns INTx off.
pub const COMMAND_INTX_DISABLE: u16 = 1 << 10;
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
    bytes: [u8; CONFIG_SIZE],
    writable: [u8; CONFIG_SIZE],
    /// The bits that the function itself answers for.
    own: [u8; CONFIG_SIZE],
    bars: [Option<Bar>; BARS],
}

impl ConfigSpace {
    /// A header of type 0 with all BARs 0 and decoding disabled.
    pub fn new(identity: Identity, bars: [Option<Bar>; BARS]) -> Self {
        let mut space = Self {
            bytes: [0; CONFIG_SIZE],
            writable: [0; CONFIG_SIZE],
            own: [0; CONFIG_SIZE],
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

    /// Adds the registers that a function has in addition to the header.
    pub(super) fn add(&mut self, registers: &Registers) {
        if registers.own {
            self.own = [0xff; CONFIG_SIZE];
            self.own[..STATUS].fill(0);
            self.own[STATUS] = !STATUS_CAPABILITIES;
            self.own[HEADER_TYPE] = 0;
            self.own[FIRST_BAR..CARDBUS].fill(0);
            self.own[ROM..=INTERRUPT_PIN].fill(0);
        }
        if let Some(pin) = registers.pin {
            self.bytes[INTERRUPT_PIN] = pin.register();
            let command = COMMAND_BITS | COMMAND_INTX_DISABLE;
            put(&mut self.writable, COMMAND, &command.to_le_bytes());
        }
        let mut pointer = usize::from(CAPABILITY_POINTER);
        for (at, capability) in registers.capabilities.iter() {
            self.bytes[STATUS] |= STATUS_CAPABILITIES;
            self.bytes[pointer] = at;
            pointer = usize::from(at) + 1;
            self.add_capability(at.into(), capability);
        }
    }

    fn add_capability(&mut self, at: usize, capability: &Capability) {
        let (registers, len) = (at + HEADER, capability.registers.len());
        self.bytes[at] = capability.id;
        self.own[at..registers + len].fill(0);
        put(&mut self.bytes, registers, &capability.registers);
        let writable = &capability.writable;
        put(
            &mut self.writable,
            registers,
            &writable[..len.min(writable.len())],
        );
    }

    /// The bits of the byte at `offset` that the function itself answers for.
    pub(super) fn own(&self, offset: usize) -> u8 {
        self.own.get(offset).copied().unwrap_or_default()
    }

    /// Reads the two bytes at `offset` from the emulated registers.
    pub fn word(&self, offset: usize) -> u16 {
        let mut data = [0; 2];
        self.read(offset, &mut data);
        u16::from_le_bytes(data)
    }

    /// Reads the four bytes at `offset` from the emulated registers.
    pub fn dword(&self, offset: usize) -> u32 {
        let mut data = [0; 4];
        self.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    /// Sets the interrupt line register, as firmware would.
    pub(super) fn assign_line(&mut self, line: u8) {
        self.write(INTERRUPT_LINE, &[line]);
    }

    /// Reads at any offset and width; bytes after the end are 0xff.
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
        let decode = match bar.space {
            BarSpace::Io => IO_DECODE,
            BarSpace::Memory32 | BarSpace::Memory64 => MEMORY_DECODE,
        };
        if self.word(COMMAND) & decode == 0 {
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

    /// Clears the decode bits, so that no BAR has an address.
    pub(super) fn disable_decode(&mut self) {
        self.write(COMMAND, &[0; 2]);
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

fn put(bytes: &mut [u8], at: usize, data: &[u8]) {
    bytes[at..at + data.len()].copy_from_slice(data);
}

#[cfg(test)]
#[path = "config_test.rs"]
mod tests;
