//! A PCI function, as the bus calls it, and the function in slot 0: the host bridge, which guests look for when they
//! probe for a PCI bus.

use std::fmt;

use vmbell::irq::Gsi;

use super::bar::{BARS, Bar};
use super::config::{ConfigSpace, Identity};
use super::registers::Registers;
use crate::snapshot::SnapshotError;

/// The fixed properties of a function.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The function's name, for messages.
    pub name: &'static str,
    /// Vendor, device and class.
    pub identity: Identity,
    /// The base address registers; the entry after a 64-bit BAR is `None`.
    pub bars: [Option<Bar>; BARS],
    /// Further contents of the function's configuration space.
    pub registers: Registers,
}

/// When the registers that a function itself answers for may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRegisters {
    /// A register changes only when the guest writes to it, so the guest can read the registers from memory, without an
    /// exit.
    Still,
    /// The registers may change at any time.
    Live,
}

/// The state of a function other than its configuration space, which only the function itself reads. It is `null` if the
/// function keeps nothing else.
pub type SavedFunction = serde_json::Value;

/// Saves and restores a PCI function, while no vCPU runs.
pub trait FunctionSnapshot {
    /// Pauses the function until [`resume`](Self::resume), and returns its state: none of its threads touches guest
    /// memory or interrupts the guest.
    ///
    /// # Errors
    ///
    /// If the function cannot be saved.
    fn pause(&self) -> Result<SavedFunction, SnapshotError>;

    /// Restores a state, after the configuration space. The function stays paused.
    ///
    /// # Errors
    ///
    /// If the state does not fit the function.
    fn restore(&self, state: &SavedFunction) -> Result<(), SnapshotError>;

    /// Continues after [`pause`](Self::pause), even if that failed, or after [`restore`](Self::restore). Defaults to
    /// doing nothing.
    fn resume(&self) {}
}

/// A PCI function. Its methods run on the thread of the vCPU that accesses it.
pub trait PciFunction: FunctionSnapshot + Send + Sync {
    /// Returns the fixed properties of the function.
    fn info(&self) -> FunctionInfo;

    /// Reads the function's own registers: fills `data`, at most four bytes of one dword.
    fn read_config(&self, _offset: usize, data: &mut [u8]) {
        data.fill(0xff);
    }

    /// Writes the function's own registers, at most four bytes of one dword.
    fn write_config(&self, _offset: usize, _data: &[u8]) {}

    /// Announces the values of the emulated registers: before the guest starts, after each of its writes to them and
    /// after each reset. BARs that no longer decode have already been unmapped; BARs that decode now are mapped
    /// afterwards. The bus is locked during the call. Returns how the function's own registers change from now on.
    ///
    /// The function's interrupt pin raises `intx`; `intx` is `None` if the function has no pin, or the pin is not
    /// connected.
    fn configured(&self, _config: &ConfigSpace, _intx: Option<Gsi>) -> OwnRegisters {
        OwnRegisters::Live
    }

    /// Handles a read: fills `data` with the bytes at `offset` in BAR `bar`.
    fn read(&self, bar: usize, offset: u64, data: &mut [u8]);

    /// Handles a write of `data` at `offset` in BAR `bar`.
    fn write(&self, bar: usize, offset: u64, data: &[u8]);

    /// Announces that BAR `bar` is mapped at the address `base` from now on; `None` means that it is not mapped.
    fn moved(&self, bar: usize, base: Option<u64>);

    /// Resets the function's state, except for the addresses of its BARs.
    fn reset(&self);
}

impl fmt::Debug for dyn PciFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

/// A host bridge that has no registers besides its header.
#[derive(Debug)]
pub struct HostBridge;

impl FunctionSnapshot for HostBridge {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        Ok(SavedFunction::Null)
    }

    fn restore(&self, state: &SavedFunction) -> Result<(), SnapshotError> {
        match state {
            SavedFunction::Null => Ok(()),
            _ => Err(SnapshotError::Different {
                device: "host-bridge",
                what: "it keeps no state".to_owned(),
            }),
        }
    }
}

impl PciFunction for HostBridge {
    /// Intel's 82441FX, the host bridge of QEMU's `pc` machine.
    fn info(&self) -> FunctionInfo {
        FunctionInfo {
            name: "host-bridge",
            identity: Identity {
                vendor: 0x8086,
                device: 0x1237,
                class: 0x0600,
            },
            bars: [None; BARS],
            registers: Registers::default(),
        }
    }

    fn read(&self, _bar: usize, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, _bar: usize, _base: Option<u64>) {}

    fn reset(&self) {}
}
