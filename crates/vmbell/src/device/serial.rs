//! The first serial port: a 16550 UART whose output goes to any writer. It raises no interrupt and receives
//! nothing: guests poll it.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use vm_superio::serial::{Error, NoEvents};
use vm_superio::{Serial as Uart, Trigger};

use crate::bus::BusDevice;

/// The first of its ports.
pub const SERIAL_PORTS: u64 = 0x3f8;
/// How many ports it has.
pub const SERIAL_LEN: u64 = 8;

/// An interrupt line that is not connected.
struct Unconnected;

impl Trigger for Unconnected {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A function that is called for each byte of output that was lost.
type OnError = Box<dyn Fn(io::Error) + Send + Sync>;

/// The device. It runs on the thread of the vCPU that prints.
pub struct Serial<W: Write + Send> {
    uart: Mutex<Uart<Unconnected, NoEvents, W>>,
    on_error: OnError,
}

impl<W: Write + Send> Serial<W> {
    /// A serial port that writes to `out` byte by byte, and calls `on_error` for each byte that cannot be written.
    pub fn new(out: W, on_error: impl Fn(io::Error) + Send + Sync + 'static) -> Self {
        Self {
            uart: Mutex::new(Uart::new(Unconnected, out)),
            on_error: Box::new(on_error),
        }
    }

    fn register(offset: u64) -> u8 {
        u8::try_from(offset).unwrap_or(u8::MAX)
    }
}

impl<W: Write + Send> BusDevice for Serial<W> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let [byte] = data else {
            data.fill(0xff);
            return;
        };
        let mut uart = self.uart.lock().unwrap_or_else(PoisonError::into_inner);
        *byte = uart.read(Self::register(offset));
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [byte] = data else { return };
        let mut uart = self.uart.lock().unwrap_or_else(PoisonError::into_inner);
        match uart.write(Self::register(offset), *byte) {
            Ok(()) | Err(Error::FullFifo) => {}
            Err(Error::IOError(error) | Error::Trigger(error)) => (self.on_error)(error),
        }
    }
}

impl<W: Write + Send> fmt::Debug for Serial<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serial")
    }
}

#[cfg(test)]
#[path = "serial_test.rs"]
mod tests;
