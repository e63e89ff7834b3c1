//! What the boot protocol passes: the command line, and the address of the ACPI tables.

#![allow(unsafe_code)]

use super::memory::{copy, read_u32, read_u64};
use crate::cmdline::text;

unsafe extern "C" {
    static BOOT_KIND: u32;
    static BOOT_INFO: u64;
}

/// The entry by which the image was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PVH: the pointer is to `struct hvm_start_info` (Xen, `docs/misc/pvh.pandoc`).
    Pvh,
    /// Multiboot 1: the pointer is to the Multiboot information.
    Multiboot,
    /// Linux's 64-bit entry: the pointer is to `struct boot_params`.
    Linux64,
}

impl Kind {
    /// The entry's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pvh => "pvh",
            Self::Multiboot => "multiboot",
            Self::Linux64 => "linux64",
        }
    }
}

/// The entry, and the loader's pointer.
pub struct Boot {
    pub kind: Kind,
    info: u64,
}

impl Boot {
    /// Reads what boot.S has stored.
    pub fn new() -> Self {
        // SAFETY: written before Rust code ran.
        let kind = match unsafe { BOOT_KIND } {
            1 => Kind::Pvh,
            2 => Kind::Multiboot,
            _ => Kind::Linux64,
        };
        // SAFETY: as above.
        let info = unsafe { BOOT_INFO };
        Self { kind, info }
    }

    /// Copies the command line, up to its NUL or the end of `to`. Empty if the loader does not pass one.
    pub fn command_line<'a>(&self, to: &'a mut [u8]) -> &'a str {
        let address = match self.kind {
            Kind::Pvh => read_u64(self.info + 24),
            Kind::Multiboot => read_u32(self.info)
                .filter(|flags| flags & 4 != 0)
                .and_then(|_| read_u32(self.info + 16))
                .map(u64::from),
            Kind::Linux64 => read_u32(self.info + 0x228)
                .zip(read_u32(self.info + 0xc8))
                .map(|(low, high)| u64::from(high) << 32 | u64::from(low)),
        };
        let len = match address {
            Some(address) if address != 0 => line_len(address, to),
            _ => 0,
        };
        text(&to[..len])
    }

    /// The address of the RSDP, if the loader passes it.
    pub fn rsdp(&self) -> Option<u64> {
        let address = match self.kind {
            Kind::Pvh => read_u64(self.info + 32),
            Kind::Multiboot => None,
            Kind::Linux64 => read_u64(self.info + 0x70),
        };
        address.filter(|address| *address != 0)
    }
}

/// Copies bytes up to a NUL, one by one, so that nothing after the NUL is read. Returns their number.
fn line_len(address: u64, to: &mut [u8]) -> usize {
    for (offset, index) in (0..).zip(0..to.len()) {
        let byte = &mut to[index..=index];
        let ended = address
            .checked_add(offset)
            .and_then(|place| copy(place, byte))
            .is_none();
        if ended || byte[0] == 0 {
            return index;
        }
    }
    to.len()
}
