//! Exits: why a vCPU left the guest, the value with which it enters again, and the devices that answer exits. All of it
//! is used on the vCPU's thread, which has its own reader of each bus and does the work that devices have deferred.

use std::fmt;

use vmbell::bus::{Backlog, BusReader};

/// Why the vCPU left the guest. A read is answered by the [`VmEntry`] that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmExit {
    /// `in`: the guest reads `len` bytes from `port`.
    PioIn {
        /// The port.
        port: u16,
        /// The width in bytes: 1, 2 or 4.
        len: u8,
    },
    /// `out`: the guest writes `data` to `port`.
    PioOut {
        /// The port.
        port: u16,
        /// The width in bytes: 1, 2 or 4.
        len: u8,
        /// The value that the guest wrote, zero-extended.
        data: u32,
    },
    /// A load from an address without memory.
    MmioRead {
        /// Guest-physical address.
        address: u64,
        /// The width in bytes, from 1 to 8: an access that crosses a page comes in parts.
        len: u8,
    },
    /// A store to an address without memory.
    MmioWrite {
        /// Guest-physical address.
        address: u64,
        /// The width in bytes, from 1 to 8: an access that crosses a page comes in parts.
        len: u8,
        /// The value that the guest wrote, zero-extended.
        data: u64,
    },
    /// A call of the hypercall page that no doorbell took; [`VmEntry::Data`] is its return value.
    Hypercall {
        /// The hypercall number, the first argument of the call.
        number: u64,
        /// The second argument of the call.
        argument: u64,
    },
    /// The guest reads a system register of its CPU.
    RegisterRead {
        /// The register.
        index: u32,
    },
    /// The guest writes a system register of its CPU.
    RegisterWrite {
        /// The register.
        index: u32,
        /// The value that the guest wrote.
        data: u64,
    },
    /// The guest halts its CPU. At the next entry it continues after that instruction. arm64 has no such exit: after
    /// `wfi` the vCPU sleeps in the kernel until an interrupt comes or it is kicked.
    Halt,
    /// The guest asks the firmware to switch it off (PSCI `SYSTEM_OFF` on arm64); no vCPU can be entered again.
    Shutdown,
    /// The guest asks the firmware to reset it (PSCI `SYSTEM_RESET` on arm64); no vCPU can be entered again.
    Reset,
    /// A thread called [`Kick::kick`](super::Kick::kick).
    Kicked,
    /// The guest did something after which the backend cannot continue; the vCPU must not be entered again. Boxed
    /// because it is rare, and unboxed it would make every exit as large as a fault.
    Fault(Box<Fault>),
}

impl fmt::Display for VmExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PioIn { port, len } => write!(f, "read of {len} bytes from port {port:#x}"),
            Self::PioOut { port, len, data } => {
                write!(f, "write of {data:#x}, {len} bytes, to port {port:#x}")
            }
            Self::MmioRead { address, len } => write!(f, "read of {len} bytes from {address:#x}"),
            Self::MmioWrite { address, len, data } => {
                write!(f, "write of {data:#x}, {len} bytes, to {address:#x}")
            }
            Self::Hypercall { number, argument } => {
                write!(f, "hypercall {number:#x} with {argument:#x}")
            }
            Self::RegisterRead { index } => write!(f, "read of register {index:#x}"),
            Self::RegisterWrite { index, data } => {
                write!(f, "write of {data:#x} to register {index:#x}")
            }
            Self::Halt => f.write_str("halt"),
            Self::Shutdown => f.write_str("shutdown by the firmware"),
            Self::Reset => f.write_str("reset by the firmware"),
            Self::Kicked => f.write_str("kick"),
            Self::Fault(fault) => write!(f, "fault: {fault}"),
        }
    }
}

/// The fault of a guest: its kind and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The exception by the short name that the CPU's manual gives it; `exception` if it gives none.
    pub exception: &'static str,
    /// The address of the instruction, if it is known.
    pub pc: Option<u64>,
    /// The address that the instruction accessed, if the CPU reports one with this exception.
    pub address: Option<u64>,
    /// The bytes of the instruction that could be read.
    pub bytes: Vec<u8>,
    /// The cause in words.
    pub reason: &'static str,
}

impl Fault {
    /// The reason of a fault if all that is known is that the CPU shut down, because it could not deliver an exception.
    pub(crate) const SHUT_DOWN: &'static str = "the cpu shut down (triple fault)";

    /// Returns whether the fault is a triple fault, after which a PC resets.
    pub fn is_triple(&self) -> bool {
        self.reason == Self::SHUT_DOWN
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.exception)?;
        if let Some(pc) = self.pc {
            write!(f, " at {pc:#x}")?;
        }
        write!(f, ": {}", self.reason)?;
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        if !self.bytes.is_empty() {
            write!(f, ", bytes")?;
            for byte in &self.bytes {
                write!(f, " {byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// The value with which the guest continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmEntry {
    /// No value; a read is answered with 0.
    #[default]
    Resume,
    /// The answer to a read, or the return value of a hypercall. Bits above the width of a read are ignored.
    Data(u64),
}

impl VmEntry {
    /// Returns the value that answers a read.
    #[inline]
    pub const fn data(self) -> u64 {
        match self {
            Self::Resume => 0,
            Self::Data(data) => data,
        }
    }
}

/// The buses of a machine, as one vCPU's thread reads them.
#[derive(Debug)]
pub struct Buses {
    /// The devices on I/O ports.
    pub pio: BusReader,
    /// The devices on guest-physical addresses.
    pub mmio: BusReader,
    /// The devices on hypercall numbers; each is written the argument of the call.
    pub hypercall: BusReader,
    /// Work that devices have left to the exit loops.
    pub backlog: Backlog,
}

impl Buses {
    /// Answers an exit. Returns `None` if no device answers it, or if the exit is not an access.
    #[inline(always)]
    pub fn answer(&mut self, exit: &VmExit) -> Option<VmEntry> {
        match *exit {
            VmExit::PioOut { port, len, data } => {
                let written = self.pio.write(port.into(), bytes(&data.to_le_bytes(), len));
                written.then_some(VmEntry::Resume)
            }
            VmExit::PioIn { port, len } => read(&mut self.pio, port.into(), len),
            VmExit::MmioWrite { address, len, data } => {
                let written = self.mmio.write(address, bytes(&data.to_le_bytes(), len));
                written.then_some(VmEntry::Resume)
            }
            VmExit::MmioRead { address, len } => read(&mut self.mmio, address, len),
            VmExit::Hypercall { number, argument } => {
                let written = self.hypercall.write(number, &argument.to_le_bytes());
                written.then_some(VmEntry::Data(0))
            }
            _ => None,
        }
    }
}

/// Returns the first `len` bytes of an access, or all bytes of `value` if `len` is greater. No backend passes a greater
/// `len`.
#[inline]
fn bytes(value: &[u8], len: u8) -> &[u8] {
    &value[..usize::from(len).min(value.len())]
}

#[inline]
fn read(bus: &mut BusReader, address: u64, len: u8) -> Option<VmEntry> {
    let mut value = [0xff; 8];
    let len = usize::from(len).min(value.len());
    bus.read(address, &mut value[..len])
        .then(|| VmEntry::Data(u64::from_le_bytes(value)))
}

#[cfg(test)]
#[path = "exit_test.rs"]
mod tests;
