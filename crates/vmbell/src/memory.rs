//! Guest memory: the types of the vm-memory crate, in the version that this library's interface uses.
//!
//! A guest's RAM is a [`GuestMemoryMmap`], and [`Bytes`] has the functions that read and write it. Any thread may do
//! so while the guest runs.
//!
//! ```
//! use vmbell::memory::{Bytes, GuestAddress, GuestMemoryMmap};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let start = GuestAddress(0x10_0000);
//! let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(start, 4096)])?;
//! memory.write_obj(7_u32, start)?;
//! assert_eq!(memory.read_obj::<u32>(start)?, 7);
//! assert!(memory.write_obj(7_u32, GuestAddress(0)).is_err(), "there is no memory");
//! # Ok(())
//! # }
//! ```

pub use vm_memory::bitmap::NewBitmap;
pub use vm_memory::mmap::FromRangesError;
pub use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryError, GuestMemoryMmap,
    GuestMemoryRegion, GuestRegionMmap, MmapRegion,
};
