//! A double of a container's addresses: the kernel's rules for mappings (Linux `drivers/vfio/vfio_iommu_type1.c`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use vmbell::memory::{GuestMemoryRegion, GuestRegionMmap};
use vmbell::sync::Mutex;
use vmbell_vfio::PassthroughError;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::iova::Iova;

/// What the device can reach.
#[derive(Debug)]
pub struct Space {
    iova: Iova,
    mapped: Mutex<BTreeMap<u64, Mapping>>,
}

#[derive(Debug)]
struct Mapping {
    size: u64,
    file: Arc<File>,
    offset: u64,
}

impl Space {
    /// All addresses except those of interrupt messages.
    pub fn new() -> Arc<Self> {
        Self::with_windows(vec![0..=0xfedf_ffff, 0xfef0_0000..=0xff_ffff_ffff])
    }

    pub fn with_windows(windows: Vec<RangeInclusive<u64>>) -> Arc<Self> {
        Arc::new(Self {
            iova: Iova {
                page: 4096,
                windows,
                free_entries: Some(65535),
            },
            mapped: Mutex::default(),
        })
    }

    /// What is mapped: addresses and sizes.
    pub fn mapped(&self) -> Vec<(u64, u64)> {
        let mapped = self.mapped.lock();
        let sizes = mapped.iter().map(|(address, found)| (*address, found.size));
        sizes.collect()
    }

    /// Reads guest memory, if all of it is mapped.
    pub fn read(&self, address: u64, data: &mut [u8]) -> bool {
        self.find(address, data.len())
            .is_some_and(|(file, at)| file.read_exact_at(data, at).is_ok())
    }

    /// Writes guest memory, if all of it is mapped.
    pub fn write(&self, address: u64, data: &[u8]) -> bool {
        self.find(address, data.len())
            .is_some_and(|(file, at)| file.write_all_at(data, at).is_ok())
    }

    /// All mappings end with the last group of a container.
    pub fn end(&self) {
        self.mapped.lock().clear();
    }

    fn find(&self, address: u64, len: usize) -> Option<(Arc<File>, u64)> {
        let mapped = self.mapped.lock();
        let (start, found) = mapped.range(..=address).next_back()?;
        let at = address - start;
        (at + len as u64 <= found.size).then(|| (Arc::clone(&found.file), found.offset + at))
    }
}

impl DmaSpace for Space {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        Ok(self.iova.clone())
    }

    fn map(&self, address: u64, region: &GuestRegionMmap) -> io::Result<()> {
        let size = region.len();
        if !self.iova.has(address, size) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut mapped = self.mapped.lock();
        let overlaps = |(start, found): (&u64, &Mapping)| {
            *start < address + size && address < start + found.size
        };
        if mapped.iter().any(overlaps) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let place = region.file_offset().unwrap();
        let mapping = Mapping {
            size,
            file: Arc::clone(place.arc()),
            offset: place.start(),
        };
        mapped.insert(address, mapping);
        Ok(())
    }

    fn unmap(&self, address: u64, size: u64) -> io::Result<()> {
        let mut mapped = self.mapped.lock();
        match mapped.get(&address) {
            Some(found) if found.size == size => {
                mapped.remove(&address);
                Ok(())
            }
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}
