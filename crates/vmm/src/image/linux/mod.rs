//! Kernels of Linux: an ELF (`vmlinux`) by PVH, and a bzImage by the 32-bit boot protocol. Other kernels with PVH's
//! entry point also boot. On arm64, a kernel is an Image; a flat file without a header also boots.

mod arm64;
mod boot_params;
mod bzimage;
mod pvh;

use vm_memory::GuestMemoryMmap;

use crate::image::error::ImageErrorKind;
use crate::image::{BootFile, RamEnd};

pub use self::arm64::Arm64Image;
pub(crate) use self::arm64::TREE_LEN;
pub(super) use self::bzimage::{SetupHeader, parse as parse_bzimage};
pub(super) use self::pvh::{parse as parse_elf, start_info};

/// The highest address for an initrd if the kernel does not name one.
pub(super) const INITRD_LAST: u64 = 0x7fff_ffff;

const PAGE: u64 = 4096;

/// An initrd's place in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::image) struct Initrd {
    /// Guest-physical address, at a page boundary.
    pub(in crate::image) address: u64,
    /// The initrd's size in bytes.
    pub(in crate::image) len: u64,
}

impl Initrd {
    /// Finds the highest address for `len` bytes in RAM, between the end of the kernel's memory (`kernel`) and `last`.
    fn place(len: u64, ram: RamEnd, (kernel, last): (u64, u64)) -> Result<Self, ImageErrorKind> {
        let end = ram.now.min(last.saturating_add(1));
        let address = end.checked_sub(len).map(|address| address / PAGE * PAGE);
        match address.filter(|address| *address >= kernel) {
            Some(address) => Ok(Self { address, len }),
            None => Err(ram.no_room("the initrd".to_owned(), len, (kernel, last))),
        }
    }

    /// Copies the initrd, if there is one, to its place.
    pub(in crate::image) fn load(
        file: Option<&BootFile>,
        memory: &GuestMemoryMmap,
        ram: RamEnd,
        place: (u64, u64),
    ) -> Result<Option<Self>, ImageErrorKind> {
        let Some(file) = file else { return Ok(None) };
        let initrd = Self::place(file.len(), ram, place)?;
        file.copy("the initrd", memory, initrd.address)?;
        Ok(Some(initrd))
    }
}

#[cfg(test)]
#[path = "linux_test.rs"]
mod tests;
