//! Ways in which a guest resets a PC or switches it off: system control port A (0x92); the keyboard controller, an
//! Intel 8042 without a keyboard; and the shutdown port of Bochs, to which the guest writes the letters of `Shutdown`.
//! All run on the thread of the vCPU that accesses them.
//!
//! Address line 20 is always on: neither port A nor the keyboard controller can switch it off.

use std::fmt;

use vmbell::bus::BusDevice;
use vmbell::sync::Mutex;

/// System control port A.
pub const PORT_A: u64 = 0x92;
/// The first port of the keyboard controller, which is its data port.
pub const I8042_PORTS: u64 = 0x60;
/// How many ports the keyboard controller spans; it uses only the first and the last.
pub const I8042_LEN: u64 = 5;

/// Port A: address line 20 is on.
const LINE_20: u8 = 1 << 1;
/// Port A: reset.
pub const RESET: u8 = 1;

/// System control port A: a write with bit 0 set resets the machine.
pub struct PortA<F>(F);

impl<F: Fn() + Send + Sync> PortA<F> {
    /// Creates a port that calls `reset`.
    pub const fn new(reset: F) -> Self {
        Self(reset)
    }
}

impl<F: Fn() + Send + Sync> BusDevice for PortA<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        if let [byte] = data {
            *byte = LINE_20;
        }
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        if let [byte] = data
            && byte & RESET != 0
        {
            (self.0)();
        }
    }
}

impl<F> fmt::Debug for PortA<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortA")
    }
}

/// The offsets of the keyboard controller's two ports.
const DATA: u64 = 0;
const COMMAND: u64 = 4;
/// Status: data is ready to be read.
const OUTPUT_FULL: u8 = 1;
/// Status: the self-test has passed, and the keyboard is not locked.
const READY: u8 = 1 << 2 | 1 << 4;
/// Commands: read and write the output port, and pull bits of it low for a moment.
const READ_OUTPUT: u8 = 0xd0;
const WRITE_OUTPUT: u8 = 0xd1;
const PULSE: u8 = 0xf0;
/// Output port: no reset. The bit for address line 20 is the same as in port A.
const NO_RESET: u8 = 1;

#[derive(Debug, Default)]
struct Waiting {
    /// A byte for the guest.
    output: Option<u8>,
    /// Whether the next byte of data is for the output port.
    writes: bool,
}

/// The keyboard controller, with its output port only.
pub struct I8042<F> {
    reset: F,
    waiting: Mutex<Waiting>,
}

impl<F: Fn() + Send + Sync> I8042<F> {
    /// Creates a controller that calls `reset`.
    pub fn new(reset: F) -> Self {
        Self {
            reset,
            waiting: Mutex::default(),
        }
    }

    /// Sets the output port, or pulls its bits low.
    fn output(&self, bits: u8) {
        if bits & NO_RESET == 0 {
            (self.reset)();
        }
    }
}

impl<F: Fn() + Send + Sync> BusDevice for I8042<F> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let [byte] = data else { return };
        let mut waiting = self.waiting.lock();
        match offset {
            DATA => *byte = waiting.output.take().unwrap_or_default(),
            COMMAND => *byte = READY | (u8::from(waiting.output.is_some()) * OUTPUT_FULL),
            _ => {}
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [byte] = *data else { return };
        let mut waiting = self.waiting.lock();
        match (offset, byte) {
            (DATA, bits) if std::mem::take(&mut waiting.writes) => self.output(bits),
            (COMMAND, READ_OUTPUT) => waiting.output = Some(NO_RESET | LINE_20),
            (COMMAND, WRITE_OUTPUT) => waiting.writes = true,
            (COMMAND, PULSE..) => self.output(byte),
            _ => {}
        }
    }
}

impl<F> fmt::Debug for I8042<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("I8042")
    }
}

/// The shutdown port.
pub const SHUTDOWN_PORT: u64 = 0x8900;

const WORD: &[u8] = b"Shutdown";

/// Calls a function when the guest has written the word `Shutdown`.
pub struct ShutdownPort<F> {
    off: F,
    /// How many letters of the word have been written.
    spelt: Mutex<usize>,
}

impl<F: Fn() + Send + Sync> ShutdownPort<F> {
    /// Creates a port that calls `off` on the thread of the vCPU that writes the last letter.
    pub fn new(off: F) -> Self {
        Self {
            off,
            spelt: Mutex::new(0),
        }
    }
}

impl<F: Fn() + Send + Sync> BusDevice for ShutdownPort<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        let mut spelt = self.spelt.lock();
        for byte in data {
            // After a wrong letter, only that letter itself can start a new word: no beginning of the word occurs again
            // inside the word.
            *spelt = match WORD.get(*spelt) {
                Some(wanted) if wanted == byte => *spelt + 1,
                _ => usize::from(WORD.first() == Some(byte)),
            };
            if *spelt == WORD.len() {
                *spelt = 0;
                (self.off)();
            }
        }
    }
}

impl<F> fmt::Debug for ShutdownPort<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShutdownPort")
    }
}

#[cfg(test)]
#[path = "reset_test.rs"]
mod tests;
