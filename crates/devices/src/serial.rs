//! The first serial port: a 16550 UART whose input any thread may bring. Its transmitter is busy while its output has no room, so
//! that a reader that stalls does not stop the vCPU that prints.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vm_superio::serial::NoEvents;
use vm_superio::{Serial as Uart, Trigger};

use super::output::Output;

use vmbell::bus::BusDevice;
use vmbell::sync::{Condvar, Mutex, MutexGuard};
use vmbell_hypervisor::IrqTrigger;

/// The first of its ports.
pub const SERIAL_PORTS: u64 = 0x3f8;
/// How many ports it has.
pub const SERIAL_LEN: u64 = 8;
/// The GSI of its interrupt, which is an edge.
pub const SERIAL_GSI: u32 = 4;

/// The register of the bytes themselves.
const DATA: u64 = 0;
/// The register that enables interrupts, and its bits for received bytes and an empty transmitter.
const INTERRUPT_ENABLE: u64 = 1;
const RECEIVED: u8 = 1;
const TRANSMITTED: u8 = 2;
/// The register of line control, and its bit that puts the divisor in the place of the first two registers.
const LINE_CONTROL: u64 = 3;
const DIVISOR: u8 = 0x80;
/// The register of modem control, and its bit by which a driver says that it is ready.
const MODEM_CONTROL: u64 = 4;
const DATA_TERMINAL_READY: u8 = 1;
/// The register of line status, and its bits for an empty transmitter.
const LINE_STATUS: u64 = 5;
const TRANSMITTER_EMPTY: u8 = 0x60;

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

/// The output of the UART, which takes each byte.
struct Printed(Output);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        bytes.iter().for_each(|byte| self.0.push(*byte));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The device. It runs on the thread of the vCPU that accesses it.
pub struct Serial {
    port: Mutex<Port>,
    output: Output,
    /// Signalled when the guest has read a byte, or may have become ready.
    room: Condvar,
}

struct Port {
    uart: Uart<Line, NoEvents, Printed>,
    /// When the guest's driver became ready to receive; `None` while it is not.
    ready: Option<Instant>,
}

impl Port {
    /// The driver is ready if it takes interrupts of received bytes and says so to the other side.
    fn look(&mut self) {
        let state = self.uart.state();
        let is_ready = state.interrupt_enable & RECEIVED != 0
            && state.modem_control & DATA_TERMINAL_READY != 0;
        self.ready = is_ready.then(|| self.ready.unwrap_or_else(Instant::now));
    }

    /// The transmitter is empty again: raises its interrupt, if the driver wants that. As a driver does, by enabling it.
    fn transmitted(&mut self) {
        let state = self.uart.state();
        if state.interrupt_enable & TRANSMITTED == 0 {
            return;
        }
        for (offset, byte) in [
            (LINE_CONTROL, state.line_control & !DIVISOR),
            (INTERRUPT_ENABLE, state.interrupt_enable),
            (LINE_CONTROL, state.line_control),
        ] {
            self.write(offset, byte);
        }
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

    fn write(&mut self, offset: u64, byte: u8) {
        // Neither the line nor the output has errors, and a full buffer of a port in loopback mode loses the byte.
        let _ = self.uart.write(register(offset), byte);
    }
}

impl Serial {
    /// A serial port that prints to `output`, and signals `irq` for each interrupt. Without `irq` guests have to poll it.
    pub fn new(output: &Output, irq: Option<Box<dyn IrqTrigger>>) -> Arc<Self> {
        let serial = Arc::new(Self {
            port: Mutex::new(Port {
                uart: Uart::new(Line(irq), Printed(output.clone())),
                ready: None,
            }),
            output: output.clone(),
            room: Condvar::new(),
        });
        let port = Arc::downgrade(&serial);
        output.on_room(move || {
            if let Some(port) = port.upgrade() {
                port.lock().transmitted();
            }
        });
        serial
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
                port = self.room.wait_timeout(port, SETTLED);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Port> {
        self.port.lock()
    }
}

fn register(offset: u64) -> u8 {
    u8::try_from(offset).unwrap_or(u8::MAX)
}

impl BusDevice for Serial {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let [byte] = data else {
            data.fill(0xff);
            return;
        };
        *byte = self.lock().uart.read(register(offset));
        match offset {
            DATA => self.room.notify_one(),
            LINE_STATUS if self.output.is_full() => *byte &= !TRANSMITTER_EMPTY,
            _ => {}
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let [byte] = data else { return };
        let mut port = self.lock();
        port.write(offset, *byte);
        if [INTERRUPT_ENABLE, MODEM_CONTROL].contains(&offset) {
            port.look();
            self.room.notify_one();
        }
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serial")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "serial_test.rs"]
mod tests;
