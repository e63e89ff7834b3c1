//! Guest memory for a device: every region of it at its guest-physical address, as long as a [`DmaMap`] exists.
//!
//! ```no_run
//! use vmbell::memory::GuestMemoryMmap;
//! use vmbell_vfio::PassthroughError;
//! use vmbell_vfio::dma::DmaMap;
//! use vmbell_vfio::kernel::Vfio;
//!
//! /// Lets the devices of a container reach all memory of a guest, until the returned value is dropped.
//! fn map(vfio: &Vfio, memory: &GuestMemoryMmap) -> Result<DmaMap, PassthroughError> {
//!     DmaMap::new(vfio.dma_space(), memory)
//! }
//! ```

use std::fmt;
use std::io;
use std::sync::Arc;

use super::error::{PassthroughError, PassthroughErrorKind};
use super::iova::Iova;
use vmbell::memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

/// The address space that devices see: a container, an IOAS, or a test's double. Any thread may use it.
pub trait DmaSpace: Send + Sync + fmt::Debug {
    /// Which addresses can be mapped.
    fn iova(&self) -> Result<Iova, PassthroughError>;

    /// Maps a region of guest memory, which stays mapped in this process until it is unmapped here.
    fn map(&self, address: u64, region: &GuestRegionMmap) -> io::Result<()>;

    /// Unmaps a range, which must be exactly a range that was mapped.
    fn unmap(&self, address: u64, size: u64) -> io::Result<()>;
}

/// All memory of a guest, mapped for its devices. Dropping it unmaps the memory.
pub struct DmaMap {
    space: Arc<dyn DmaSpace>,
    // Kept: a device must never reach memory that this process uses for something else.
    memory: GuestMemoryMmap,
    mapped: Vec<(u64, u64)>,
}

impl DmaMap {
    /// Maps all of `memory`. If a region cannot be mapped, no region is.
    pub fn new(
        space: Arc<dyn DmaSpace>,
        memory: &GuestMemoryMmap,
    ) -> Result<Self, PassthroughError> {
        let iova = space.iova()?;
        let mut map = Self {
            space,
            memory: memory.clone(),
            mapped: Vec::new(),
        };
        for region in memory.iter() {
            let (address, size) = (region.start_addr().0, region.len());
            if !iova.has(address, size) {
                let windows = iova.to_string();
                return Err(PassthroughErrorKind::Window {
                    address,
                    size,
                    windows,
                }
                .into());
            }
            let result = map.space.map(address, region);
            result.map_err(|source| refused(address, size, source))?;
            map.mapped.push((address, size));
        }
        Ok(map)
    }
}

/// Makes the error of a region that cannot be mapped.
fn refused(address: u64, size: u64, source: io::Error) -> PassthroughErrorKind {
    if source.raw_os_error() == Some(libc::ENOMEM) {
        return PassthroughErrorKind::Lock {
            address,
            size,
            source,
        };
    }
    PassthroughErrorKind::Map {
        address,
        size,
        source,
    }
}

impl Drop for DmaMap {
    fn drop(&mut self) {
        for (address, size) in self.mapped.drain(..) {
            if self.space.unmap(address, size).is_err() {
                // The device may still write there: this process must not use the memory for anything else.
                std::mem::forget(self.memory.clone());
            }
        }
    }
}

impl fmt::Debug for DmaMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DmaMap")
            .field("space", &self.space)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}
