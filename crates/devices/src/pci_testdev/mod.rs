//! QEMU's `pci-testdev`, with which kvm-unit-tests measures doorbells (QEMU `docs/specs/pci-testdev.rst`).
//!
//! A guest selects a test by writing its number to offset 0 of BAR0 (memory) or BAR1 (ports). It reads from the header
//! what to write and where, writes that, and reads from the header how many of its writes reached the device. With a
//! working doorbell, none reach it. All of it runs on the thread of the vCPU that makes the access.
//!
//! ```
//! use std::io;
//! use std::sync::Arc;
//! use vmbell_devices::pci_testdev::{PciTestdev, PciTestdevConfig};
//! use vmbell_hypervisor::IoEvents;
//!
//! /// A device whose doorbells are those of a guest.
//! fn testdev(guest: Arc<dyn IoEvents>) -> io::Result<PciTestdev> {
//!     let on_error = |error| eprintln!("pci-testdev: {error}");
//!     PciTestdev::new(PciTestdevConfig::default(), guest, Box::new(on_error))
//! }
//! ```

mod header;
mod selection;
mod test;

use std::fmt;
use std::io;
use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub use self::selection::OnError;
use self::selection::Selection;
use self::test::{MMIO_SIZE, Modes, PORT_SIZE, Space};
use super::pci::{
    BARS, Bar, BarSpace, FunctionInfo, FunctionSnapshot, Identity, PciFunction, Registers,
    SavedFunction,
};
use super::snapshot::SnapshotError;
use vmbell::sync::Mutex;
use vmbell_hypervisor::IoEvents;

/// The BAR with the optional memory.
const MEMBAR: usize = 2;

/// The options of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciTestdevConfig {
    /// The size in bytes of BAR2, a 64-bit BAR without registers; 0 for no such BAR.
    pub membar: u64,
    /// Adds a fourth test to each BAR, `pv-eventfd`: a doorbell for writes of any length. The doorbell of the wildcard
    /// test then only takes writes of one byte, on ports and in memory. Without `pv`, the doorbell in memory takes
    /// writes of any length, as in QEMU.
    pub pv: bool,
}

/// QEMU's `pci-testdev`.
pub struct PciTestdev {
    membar: u64,
    selection: Mutex<Selection>,
}

impl PciTestdev {
    /// Creates a device that registers its doorbells with `events`. If that fails, the device calls `on_error` and
    /// selects no test.
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
}

/// Makes the refusal to save or restore the function.
const fn unsaved() -> SnapshotError {
    SnapshotError::Unsaved {
        device: "pci-testdev",
        reason: "the state of its tests is not part of a snapshot",
    }
}

impl FunctionSnapshot for PciTestdev {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        Err(unsaved())
    }

    fn restore(&self, _: &SavedFunction) -> Result<(), SnapshotError> {
        Err(unsaved())
    }
}

impl PciFunction for PciTestdev {
    /// Red Hat's ID for the device (1b36:0005); base class 0 means unclassified.
    fn info(&self) -> FunctionInfo {
        let mut bars = [None; BARS];
        bars[0] = Some(Bar {
            space: BarSpace::Memory32,
            size: MMIO_SIZE,
            prefetchable: false,
        });
        bars[1] = Some(Bar {
            space: BarSpace::Io,
            size: PORT_SIZE,
            prefetchable: false,
        });
        bars[MEMBAR] = (self.membar != 0).then_some(Bar {
            space: BarSpace::Memory64,
            size: self.membar,
            prefetchable: true,
        });
        FunctionInfo {
            name: "pci-testdev",
            identity: Identity {
                vendor: 0x1b36,
                device: 0x0005,
                class: 0x00ff,
            },
            bars,
            registers: Registers::default(),
        }
    }

    /// Reads byte by byte, so that a wide read equals several narrow reads.
    fn read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        if Space::of(bar).is_none() {
            return data.fill(0xff);
        }
        let selection = self.selection.lock();
        for (byte, offset) in data.iter_mut().zip(offset..) {
            *byte = selection.read(offset);
        }
    }

    /// Writes byte by byte: a wide write is counted if its byte at the test's offset is counted.
    fn write(&self, bar: usize, offset: u64, data: &[u8]) {
        let Some(space) = Space::of(bar) else { return };
        let mut selection = self.selection.lock();
        for (byte, offset) in data.iter().zip(offset..) {
            selection.write(space, offset, *byte);
        }
    }

    fn moved(&self, bar: usize, base: Option<u64>) {
        if let Some(space) = Space::of(bar) {
            self.selection.lock().moved(space, base);
        }
    }

    fn reset(&self) {
        self.selection.lock().stop();
    }
}

impl fmt::Debug for PciTestdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PciTestdev({:?})", *self.selection.lock())
    }
}

#[cfg(test)]
mod tests;
