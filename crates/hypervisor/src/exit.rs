//! Exits: why a vCPU left the guest, and the value with which it enters again. Used on the thread of the vCPU.

use std::fmt;

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
    /// The guest halts its CPU. At the next entry it goes on behind that instruction. There is none on arm64: after
    /// `wfi` the vCPU sleeps in the kernel until an interrupt comes or it is kicked.
    Halt,
    /// The guest asks the firmware to switch it off (PSCI `SYSTEM_OFF` on arm64); no vCPU of it can be entered again.
    Shutdown,
    /// The guest asks the firmware to reset it (PSCI `SYSTEM_RESET` on arm64); no vCPU of it can be entered again.
    Reset,
    /// A thread called [`Kick::kick`](super::Kick::kick).
    Kicked,
    /// The guest did something that the backend cannot go on from; the vCPU must not be entered again. Boxed
    /// because it is rare, and unboxed it would make every exit as large.
    Fault(Box<Fault>),
}

/// The fault of a guest: its kind and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The exception by the short name that the CPU's manual gives it; `exception` if it gives none.
    pub exception: &'static str,
    /// The address of the instruction, if it is known.
    pub pc: Option<u64>,
    /// The address that the instruction accessed, if the CPU reports one with this exception.
    pub address: Option<u64>,
    /// The bytes of the instruction, as many as could be read.
    pub bytes: Vec<u8>,
    /// The cause in words.
    pub reason: &'static str,
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

/// The value with which the guest goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmEntry {
    /// No value; a read is answered with 0.
    #[default]
    Resume,
    /// The answer to a read, or the return value of a hypercall. Bits above the width of a read are ignored.
    Data(u64),
}

impl VmEntry {
    /// The value that answers a read.
    #[inline]
    pub const fn data(self) -> u64 {
        match self {
            Self::Resume => 0,
            Self::Data(data) => data,
        }
    }
}
