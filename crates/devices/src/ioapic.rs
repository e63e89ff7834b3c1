//! An I/O APIC in the VMM (82093AA data sheet, 3), for guests with only their local APICs in the kernel: each edge at a
//! pin becomes a message.
//!
//! A pin that the guest makes level-triggered works as edge-triggered, because the device does not learn of the end of
//! an interrupt. vCPU threads access the registers, and any thread may use the pins.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vmbell::bus::BusDevice;
use vmbell::irq::{IrqArch, Msi};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::{Error, IrqTrigger, Irqs};

use super::serial::SERIAL_GSI;

/// Guest-physical address of the I/O APIC's registers.
pub const IO_APIC: u64 = 0xfec0_0000;
/// Size of the registers in bytes.
pub const IO_APIC_LEN: u64 = 0x20;

/// Enough for the only device that uses a line. A guest sets up every pin, with several exits for each, so further pins
/// would cost exits.
const PINS: usize = LAST as usize + 1;
const LAST: u32 = SERIAL_GSI;

/// The offsets of the register that selects another register, and of the selected register.
const SELECT: u64 = 0x00;
const WINDOW: u64 = 0x10;

/// The registers that can be selected.
const ID: u8 = 0;
const VERSION: u8 = 1;
const ARBITRATION: u8 = 2;
/// The low half of the redirection entry of pin 0; the high half follows, then those of the other pins.
const ENTRIES: u8 = 0x10;

/// A redirection entry: the bit that masks the pin, and the bits that the guest can write.
const MASKED: u64 = 1 << 16;
const WRITABLE: u64 = 0xff00_0000_0001_afff;

/// The I/O APIC.
pub struct IoApic {
    irqs: Arc<dyn Irqs>,
    registers: Mutex<IoApicRegisters>,
    on_error: Box<dyn Fn(Error) + Send + Sync>,
}

/// The registers of an I/O APIC: its state.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoApicRegisters {
    id: u32,
    selected: u8,
    entries: [u64; PINS],
}

impl IoApic {
    /// Creates an I/O APIC with all pins masked, whose messages go to `irqs`. It calls `on_error` if a message cannot
    /// be sent.
    pub fn new(irqs: Arc<dyn Irqs>, on_error: impl Fn(Error) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            irqs,
            registers: Mutex::new(IoApicRegisters {
                id: 0,
                selected: 0,
                entries: [MASKED; PINS],
            }),
            on_error: Box::new(on_error),
        })
    }

    /// The pin of the serial port.
    pub fn serial_pin(self: &Arc<Self>) -> IoApicPin {
        IoApicPin(Arc::clone(self))
    }

    /// The registers, for a snapshot.
    pub fn save(&self) -> IoApicRegisters {
        *self.lock()
    }

    /// Restores saved registers, without the bits that a guest cannot write.
    pub fn restore(&self, saved: &IoApicRegisters) {
        *self.lock() = IoApicRegisters {
            entries: saved.entries.map(|entry| entry & WRITABLE),
            ..*saved
        };
    }

    fn lock(&self) -> MutexGuard<'_, IoApicRegisters> {
        self.registers.lock()
    }
}

/// A pin that a device raises, by edges.
#[derive(Debug)]
pub struct IoApicPin(Arc<IoApic>);

impl IrqTrigger for IoApicPin {
    fn signal(&self) {
        let entry = self.0.lock().entries[PINS - 1];
        // An edge at a masked pin is lost (82093AA, 3.2.4), and a vector below 16 is not an interrupt.
        let Some(message) = message(entry).filter(|message| message.check(IrqArch::X86_64).is_ok())
        else {
            return;
        };
        if let Err(error) = self.0.irqs.signal_msi(message) {
            (self.0.on_error)(error);
        }
    }
}

/// The message of a pin; `None` if it is masked.
fn message(entry: u64) -> Option<Msi> {
    let (destination, is_logical) = (entry >> 56, entry >> 11 & 1);
    let data = u32::try_from(entry & 0x7ff).ok()?;
    let message = Msi {
        address: 0xfee0_0000 | destination << 12 | is_logical << 2,
        data,
        device: None,
    };
    (entry & MASKED == 0).then_some(message)
}

impl IoApicRegisters {
    /// The pin whose entry is selected, and the bit position of the selected half.
    fn entry(&self) -> Option<(usize, u32)> {
        let index = self.selected.checked_sub(ENTRIES)?;
        let pin = usize::from(index / 2);
        (pin < PINS).then_some((pin, u32::from(index % 2) * 32))
    }

    fn read(&self) -> u32 {
        match (self.selected, self.entry()) {
            (ID | ARBITRATION, _) => self.id,
            (VERSION, _) => 0x11 | LAST << 16,
            (_, Some((pin, shift))) => (self.entries[pin] >> shift & 0xffff_ffff) as u32,
            _ => 0,
        }
    }

    fn write(&mut self, value: u32) {
        match (self.selected, self.entry()) {
            (ID, _) => self.id = value & 0x0f00_0000,
            (_, Some((pin, shift))) => {
                let half = 0xffff_ffff << shift;
                let value = self.entries[pin] & !half | u64::from(value) << shift;
                self.entries[pin] = value & WRITABLE;
            }
            _ => {}
        }
    }
}

impl BusDevice for IoApic {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let registers = self.lock();
        let value = match offset {
            SELECT => registers.selected.into(),
            WINDOW => registers.read(),
            _ => 0,
        };
        data.fill(0);
        let bytes = value.to_le_bytes();
        data.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut registers = self.lock();
        match (offset, data) {
            (SELECT, [selected, ..]) => registers.selected = *selected,
            (WINDOW, data) => {
                if let Ok(value) = <[u8; 4]>::try_from(data) {
                    registers.write(u32::from_le_bytes(value));
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for IoApic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IoApic")
    }
}

#[cfg(test)]
#[path = "ioapic_test.rs"]
mod tests;
