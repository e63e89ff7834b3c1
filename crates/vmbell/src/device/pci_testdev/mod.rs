//! QEMU's `pci-testdev`, which kvm-unit-tests measures doorbells with (QEMU
//! `docs/specs/pci-testdev.rst`).
//!
//! A guest selects a test by writing its number to offset 0 of BAR0 (memory) or BAR1 (ports), reads
//! in the header where to write what, writes, and reads in the header how many of the writes came
//! this far. Behind a working doorbell none do. Everything runs on the vCPU thread that accesses.

mod header;
mod selection;
mod test;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use self::selection::Selection;
use self::test::{Modes, Space};
use super::pci::{BARS, Bar, BarSpace, Identity, PciFunction};
use crate::hypervisor::{Error, IoEvents};

/// Bytes of BAR0.
const MMIO_SIZE: u64 = 4096;
/// Ports of BAR1.
const PORT_SIZE: u64 = 256;
/// The BAR of the optional memory.
const MEMBAR: usize = 2;

/// What a device is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciTestdevConfig {
    /// The size of BAR2, a 64-bit one with nothing behind it; 0 for none.
    pub membar: u64,
    /// Adds a fourth test to each BAR, `pv-eventfd`: a doorbell for writes of any length. The
    /// wildcard test then takes writes of one byte only, on ports and in memory alike; without it,
    /// the one in memory takes any length, as in QEMU.
    pub pv: bool,
}

/// Somebody who wants to know that a doorbell could not be had.
pub type OnError = Box<dyn Fn(Error) + Send + Sync>;

/// The device.
pub struct PciTestdev {
    membar: u64,
    selection: Mutex<Selection>,
}

impl PciTestdev {
    /// A device that has its doorbells from `events`. If one is refused, `on_error` hears of it,
    /// and no test is selected.
    pub fn new(
        config: PciTestdevConfig,
        events: Arc<dyn IoEvents>,
        on_error: OnError,
    ) -> io::Result<Self> {
        let modes = if config.pv {
            Modes::WithPv
        } else {
            Modes::Mainline
        };
        let event = EventFd::new(EFD_NONBLOCK)?;
        Ok(Self {
            membar: config.membar,
            selection: Mutex::new(Selection::new(modes, event, events, on_error)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Selection> {
        self.selection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl PciFunction for PciTestdev {
    fn name(&self) -> &'static str {
        "pci-testdev"
    }

    /// Red Hat's number for the device; a class that says nothing.
    fn identity(&self) -> Identity {
        Identity {
            vendor: 0x1b36,
            device: 0x0005,
            class: 0x00ff,
        }
    }

    fn bars(&self) -> [Option<Bar>; BARS] {
        let mut bars = [None; BARS];
        bars[0] = Some(Bar {
            space: BarSpace::Memory32,
            size: MMIO_SIZE,
        });
        bars[1] = Some(Bar {
            space: BarSpace::Io,
            size: PORT_SIZE,
        });
        bars[MEMBAR] = (self.membar != 0).then_some(Bar {
            space: BarSpace::Memory64,
            size: self.membar,
        });
        bars
    }

    /// Byte by byte, so that a wide read is the same as narrow ones.
    fn read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        if Space::of(bar).is_none() {
            return data.fill(0xff);
        }
        let selection = self.lock();
        for (byte, offset) in data.iter_mut().zip(offset..) {
            *byte = selection.read(offset);
        }
    }

    /// Byte by byte: a wide write counts if its byte at the right offset does.
    fn write(&self, bar: usize, offset: u64, data: &[u8]) {
        let Some(space) = Space::of(bar) else { return };
        let mut selection = self.lock();
        for (byte, offset) in data.iter().zip(offset..) {
            selection.write(space, offset, *byte);
        }
    }

    fn moved(&self, bar: usize, base: Option<u64>) {
        if let Some(space) = Space::of(bar) {
            self.lock().moved(space, base);
        }
    }

    fn reset(&self) {
        self.lock().stop();
    }
}

impl fmt::Debug for PciTestdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PciTestdev({:?})", *self.lock())
    }
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
