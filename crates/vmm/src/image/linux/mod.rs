//! Kernels of Linux: an ELF (`vmlinux`) by PVH, and a bzImage by the 32-bit boot protocol. Other kernels with PVH's entry
//! point boot, too. On arm64 it is an Image, or a flat file without its header.

mod arm64;
mod bzimage;
mod initrd;
mod pvh;
mod refused;
#[cfg(test)]
#[path = "test.rs"]
mod tests;

pub use self::arm64::Arm64Image;
pub(crate) use self::arm64::TREE_LEN;
pub(super) use self::bzimage::{SetupHeader, parse as parse_bzimage};
pub(super) use self::initrd::Initrd;
pub(super) use self::pvh::{parse as parse_elf, start_info};

/// The highest address for an initrd of a kernel that names none.
pub(super) const INITRD_LAST: u64 = 0x7fff_ffff;
