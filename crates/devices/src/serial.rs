//! The first serial port: a 16550 UART whose output goes to any writer, and whose input any thread may bring.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vm_superio::serial::{Error, NoEvents};
use vm_superio::{Serial as Uart, Trigger};

use vmbell::bus::BusDevice;
use vmbell_hypervisor::IrqTrigger;

/// The first of its ports.
pub const SERIAL_PORTS: u64 = 0x3f8;
/// How many ports it has.
pub const SERIAL_LEN: u64 = 8;
/// The GSI of its interrupt, which is an edge.
pub const SERIAL_GSI: u32 = 4;

/// The register of the bytes themselves.
const DATA: u64 = 0;
/// The register that enables interrupts, and its bit for received bytes.
const INTERRUPT_ENABLE: u64 = 1;
const RECEIVED: u8 = 1;
/// The register of modem control, and its bit by which a driver says that it is ready.
const MODEM_CONTROL: u64 = 4;
const DATA_TERMINAL_READY: u8 = 1;

/// How long a driver has to be ready before it gets input; also how often [`Serial::receive`] looks whether it has to end.
const SETTLED: Duration = Duration::from_millis(20);

/// The interrupt line; `None` if it is not connected.
struct Line(Option<Box<dyn IrqTrigger>>);

impl Trigger for Line {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        if let Some(irq) = &self.0 {
            irq.signal();
        }
        Ok(())
    }
}

/// A function that is called for each byte of output that was lost.
type OnError = Box<dyn Fn(io::Error) + Send + Sync>;

/// The device. It runs on the thread of the vCPU that accesses it.
pub struct Serial<W: Write + Send> {
    port: Mutex<Port<W>>,
    /// Signalled when the guest has read a byte, or may have become ready.
    room: Condvar,
    on_error: OnError,
}

struct Port<W: Write + Send> {
    uart: Uart<Line, NoEvents, W>,
    /// When the guest's driver became ready to receive; `None` while it is not.
    ready: Option<Instant>,
}

impl<W: Write + Send> Port<W> {
    /// The driver is ready if it takes interrupts of received bytes and says so to the other side.
    fn look(&mut self) {
        let state = self.uart.state();
        let is_ready = state.interrupt_enable & RECEIVED != 0
            && state.modem_control & DATA_TERMINAL_READY != 0;
        self.ready = is_ready.then(|| self.ready.unwrap_or_else(Instant::now));
    }

    /// Takes what there is room for at this time, and returns how many bytes that is.
    fn receive(&mut self, bytes: &[u8], now: Instant) -> usize {
        match self.ready {
            // A full buffer is an error here, and a port in loopback mode takes nothing.
            Some(ready) if now.duration_since(ready) >= SETTLED => {
                self.uart.enqueue_raw_bytes(bytes).unwrap_or_default()
            }
            _ => 0,
        }
    }
}

impl<W: Write + Send> Serial<W> {
    /// A serial port that writes to `out` byte by byte, signals `irq` for each interrupt, and calls `on_error` for each
    /// byte that cannot be written. Without `irq` guests have to poll it.
    pub fn new(
        out: W,
        irq: Option<Box<dyn IrqTrigger>>,
        on_error: impl Fn(io::Error) + Send + Sync + 'static,
    ) -> Self {
        Self {
            port: Mutex::new(Port {
                uart: Uart::new(Line(irq), out),
                ready: None,
            }),
            room: Condvar::new(),
            on_error: Box::new(on_error),
        }
    }

    /// Gives the guest these bytes to read, in order. It waits while the port's 64 bytes of room are full, and until the
    /// guest's driver has been ready for 20 ms: a driver that probes the port is ready for a moment, and throws away what
    /// it reads. When `until` returns true, the rest is lost.
    pub fn receive(&self, mut bytes: &[u8], until: impl Fn() -> bool) {
        let mut port = self.lock();
        while !bytes.is_empty() && !until() {
            let taken = port.receive(bytes, Instant::now());
            bytes = bytes.get(taken..).unwrap_or_default();
            if taken == 0 {
                let waited = self.room.wait_timeout(port, SETTLED);
                (port, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Port<W>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
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
        *byte = self.lock().uart.read(Self::register(offset));
        if offset == DATA {
            self.room.notify_one();
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [byte] = data else { return };
        let mut port = self.lock();
        let written = port.uart.write(Self::register(offset), *byte);
        if [INTERRUPT_ENABLE, MODEM_CONTROL].contains(&offset) {
            port.look();
            self.room.notify_one();
        }
        drop(port);
        match written {
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
