//! The first serial port: a 16550 UART that any thread may give input. Its transmitter is busy while its output has no
//! room, so that a stalled reader does not stop the vCPU that prints.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vm_superio::serial::{NoEvents, SerialState};
use vm_superio::{Serial as Uart, Trigger};

use super::output::Output;
use super::snapshot::SnapshotError;

use vmbell::bus::BusDevice;
use vmbell::sync::{Condvar, Mutex, MutexGuard};
use vmbell_hypervisor::IrqTrigger;

/// The first port of the UART.
pub const SERIAL_PORTS: u64 = 0x3f8;
/// How many ports the UART has.
pub const SERIAL_LEN: u64 = 8;
/// The GSI of the UART's interrupt, which is edge-triggered.
pub const SERIAL_GSI: u32 = 4;

/// The data register (RBR and THR).
const DATA: u64 = 0;
/// The interrupt enable register (IER), and its bits for received bytes and an empty transmitter.
const INTERRUPT_ENABLE: u64 = 1;
const RECEIVED: u8 = 1;
const TRANSMITTED: u8 = 2;
/// The bits of the interrupt identification register (IIR) for the same interrupts.
const RECEIVED_IDENTIFIED: u8 = 4;
const TRANSMITTED_IDENTIFIED: u8 = 2;
/// The line control register (LCR), and its bit that replaces the first two registers with the divisor.
const LINE_CONTROL: u64 = 3;
const DIVISOR: u8 = 0x80;
/// The modem control register (MCR), and its bit with which a driver says that it is ready.
const MODEM_CONTROL: u64 = 4;
const DATA_TERMINAL_READY: u8 = 1;
/// The line status register (LSR), and its bits for an empty transmitter.
const LINE_STATUS: u64 = 5;
const TRANSMITTER_EMPTY: u8 = 0x60;

/// How long a driver must have been ready before it gets input; also how often [`Serial::receive`] checks whether it
/// must end.
const SETTLED: Duration = Duration::from_millis(20);

/// The interrupt line; not connected if `None`.
#[derive(Clone)]
struct Line(Option<Arc<dyn IrqTrigger>>);

impl Trigger for Line {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        if let Some(irq) = &self.0 {
            irq.signal();
        }
        Ok(())
    }
}

/// The output of the UART, which accepts every byte.
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

/// The state of a serial port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UartState {
    divisor: u16,
    interrupt_enable: u8,
    interrupt_identification: u8,
    line_control: u8,
    line_status: u8,
    modem_control: u8,
    modem_status: u8,
    scratch: u8,
    input: Vec<u8>,
}

/// The serial port. Runs on the thread of the vCPU that accesses it.
pub struct Serial {
    port: Mutex<Port>,
    line: Line,
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
    /// Updates whether the driver is ready: it takes interrupts for received bytes and signals DTR.
    fn look(&mut self) {
        let state = self.uart.state();
        let is_ready = state.interrupt_enable & RECEIVED != 0
            && state.modem_control & DATA_TERMINAL_READY != 0;
        self.ready = is_ready.then(|| self.ready.unwrap_or_else(Instant::now));
    }

    /// Raises the interrupt of an empty transmitter, if the driver has enabled it, by enabling it again.
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

    /// Whether an interrupt that the driver has enabled is not acknowledged yet.
    fn is_interrupting(&self) -> bool {
        let state = self.uart.state();
        let is_pending = |enabled: u8, identified: u8| {
            state.interrupt_enable & enabled != 0
                && state.interrupt_identification & identified != 0
        };
        is_pending(RECEIVED, RECEIVED_IDENTIFIED) || is_pending(TRANSMITTED, TRANSMITTED_IDENTIFIED)
    }

    /// Takes as many bytes as there is room for, and returns their number.
    fn receive(&mut self, bytes: &[u8], now: Instant) -> usize {
        match self.ready {
            // A full buffer is an error in the UART, and a port in loopback mode takes nothing.
            Some(ready) if now.duration_since(ready) >= SETTLED => {
                self.uart.enqueue_raw_bytes(bytes).unwrap_or_default()
            }
            _ => 0,
        }
    }

    fn write(&mut self, offset: u64, byte: u8) {
        // The write fails only in loopback mode with a full buffer, and then the byte is lost.
        let _ = self.uart.write(register(offset), byte);
    }
}

impl Serial {
    /// Creates a serial port that prints to `output`, and signals `irq` for each interrupt. Without `irq`, guests must
    /// poll.
    pub fn new(output: &Output, irq: Option<Box<dyn IrqTrigger>>) -> Arc<Self> {
        let line = Line(irq.map(Arc::from));
        let serial = Arc::new(Self {
            port: Mutex::new(Port {
                uart: Uart::new(line.clone(), Printed(output.clone())),
                ready: None,
            }),
            line,
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

    /// Gives the guest these bytes to read, in order. Waits while the port's buffer of 64 bytes is full, and until the
    /// guest's driver has been ready for 20 ms: a driver that only probes the port is ready for a moment, and discards
    /// what it reads. When `until` returns true, the remaining bytes are lost.
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

    /// The registers of the port and the input that the guest has not read, for a snapshot. What the guest has printed
    /// is in the output.
    pub fn save(&self) -> UartState {
        let state = self.lock().uart.state();
        UartState {
            divisor: u16::from_le_bytes([state.baud_divisor_low, state.baud_divisor_high]),
            interrupt_enable: state.interrupt_enable,
            interrupt_identification: state.interrupt_identification,
            line_control: state.line_control,
            line_status: state.line_status,
            modem_control: state.modem_control,
            modem_status: state.modem_status,
            scratch: state.scratch,
            input: state.in_buffer,
        }
    }

    /// Restores a saved state. [`resume`](Self::resume) must follow.
    ///
    /// # Errors
    ///
    /// If the state has more input than the port has room for.
    pub fn restore(&self, saved: &UartState) -> Result<(), SnapshotError> {
        let [baud_divisor_low, baud_divisor_high] = saved.divisor.to_le_bytes();
        let state = SerialState {
            baud_divisor_low,
            baud_divisor_high,
            interrupt_enable: saved.interrupt_enable,
            interrupt_identification: saved.interrupt_identification,
            line_control: saved.line_control,
            line_status: saved.line_status,
            modem_control: saved.modem_control,
            modem_status: saved.modem_status,
            scratch: saved.scratch,
            in_buffer: saved.input.clone(),
        };
        let printed = Printed(self.output.clone());
        let uart = Uart::from_state(&state, self.line.clone(), NoEvents, printed);
        let mut port = self.lock();
        port.uart = uart.map_err(|_| SnapshotError::Different {
            device: "serial port",
            what: format!("it has no room for {} bytes of input", saved.input.len()),
        })?;
        port.look();
        Ok(())
    }

    /// Raises each interrupt that the driver has enabled and not acknowledged once more, because it may have been on
    /// its way to the guest, and that of an empty transmitter, because the output may have room now.
    pub fn resume(&self) {
        let mut port = self.lock();
        if port.is_interrupting() {
            // The UART itself raises an interrupt only once. A line never fails.
            let _ = self.line.trigger();
        }
        port.transmitted();
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
