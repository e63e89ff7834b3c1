//! Why a vCPU left the guest, and with what it enters again.

use std::fmt;

/// Why the guest stopped. Reads are answered by the [`VmEntry`] that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmExit {
    /// `in`: `len` bytes wanted from `port`.
    PioIn {
        /// The port.
        port: u16,
        /// 1, 2 or 4.
        len: u8,
    },
    /// `out`: `data`, zero-extended, to `port`.
    PioOut {
        /// The port.
        port: u16,
        /// 1, 2 or 4.
        len: u8,
        /// What the guest wrote.
        data: u32,
    },
    /// A load from an address with no memory behind it.
    MmioRead {
        /// Guest-physical address.
        address: u64,
        /// 1, 2, 4 or 8.
        len: u8,
    },
    /// A store to an address with no memory behind it.
    MmioWrite {
        /// Guest-physical address.
        address: u64,
        /// 1, 2, 4 or 8.
        len: u8,
        /// What the guest wrote, zero-extended.
        data: u64,
    },
    /// A call through the hypercall page that no doorbell took; [`VmEntry::Data`] is its return value.
    Hypercall {
        /// Which, the first argument.
        number: u64,
        /// The second argument.
        argument: u64,
    },
    /// `rdmsr`.
    MsrRead {
        /// The register.
        index: u32,
    },
    /// `wrmsr`.
    MsrWrite {
        /// The register.
        index: u32,
        /// What the guest wrote.
        data: u64,
    },
    /// `hlt`; entering again goes on behind it.
    Hlt,
    /// Somebody called [`Kick::kick`](super::Kick::kick).
    Kicked,
    /// The guest did what it cannot do here; it must not be entered again. Boxed, because it is rare
    /// and every exit would be as large.
    Fault(Box<Fault>),
}

/// What a guest did wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The x86 exception vector.
    pub vector: u8,
    /// The instruction.
    pub pc: u64,
    /// The address that it touched, for a page fault.
    pub address: u64,
    /// The bytes at `pc` as far as they could be read.
    pub bytes: Vec<u8>,
    /// What was wrong with it, in words.
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

/// With what the guest goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmEntry {
    /// Nothing to hand over; a read is answered with 0.
    #[default]
    Resume,
    /// The answer to a read, or a hypercall's return value; bits above its width are ignored.
    Data(u64),
}

impl VmEntry {
    /// What a read is answered with.
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
    /// Answered below the VMM: a doorbell found and signalled.
    pub light: u64,
    /// Answered by the VMM.
    pub heavy: u64,
}
