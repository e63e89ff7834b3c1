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
    /// `rdmsr`: the guest reads a model-specific register.
    MsrRead {
        /// The register.
        index: u32,
    },
    /// `wrmsr`: the guest writes a model-specific register.
    MsrWrite {
        /// The register.
        index: u32,
        /// The value that the guest wrote.
        data: u64,
    },
    /// `hlt`. At the next entry the guest goes on behind it.
    Hlt,
    /// A thread called [`Kick::kick`](super::Kick::kick).
    Kicked,
    /// The guest did something that the backend cannot go on from; the vCPU must not be entered again. Boxed
    /// because it is rare, and unboxed it would make every exit as large.
    Fault(Box<Fault>),
}

/// The fault of a guest: its kind and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The x86 exception vector.
    pub vector: u8,
    /// The address of the instruction.
    pub pc: u64,
    /// The address that the instruction accessed, for a page fault.
    pub address: u64,
    /// The bytes of the instruction, as many as could be read.
    pub bytes: Vec<u8>,
    /// The cause in words.
    pub reason: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.vector {
            0 => "#DE",
            1 => "#DB",
            3 => "#BP",
            6 => "#UD",
            12 => "#SS",
            13 => "#GP",
            14 => "#PF",
            16 => "#MF",
            17 => "#AC",
            19 => "#XM",
            _ => "exception",
        };
        write!(f, "{name} at {:#x}: {}", self.pc, self.reason)?;
        if self.vector == 14 {
            write!(f, ", address {:#x}", self.address)?;
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
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for backends"))]
    #[inline]
    pub(super) const fn data(self) -> u64 {
        match self {
            Self::Resume => 0,
            Self::Data(data) => data,
        }
    }
}

/// How often a vCPU has left the guest's own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCounts {
    /// Exits that were answered below the VMM, for example by a signal to a doorbell's eventfd.
    pub light: u64,
    /// Exits that the VMM answered.
    pub heavy: u64,
}
