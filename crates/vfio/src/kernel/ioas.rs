//! An IOAS of an iommufd: the addresses of one IOMMU, for devices with their own file (Linux
//! `Documentation/userspace-api/iommufd.rst`).

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use iommufd_bindings::iommufd::{
    iommu_ioas_alloc, iommu_ioas_map, iommu_ioas_unmap,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE,
    iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE,
};
use iommufd_ioctls::{IommuFd, IommufdError};
use vmbell::memory::{GuestMemoryRegion, GuestRegionMmap};
use vmbell_hypervisor::AssignedDevices;

use super::super::device::Device;
use super::super::dma::DmaSpace;
use super::super::iova::{Iova, windows};
use super::device_file::{KernelFile, Member, RegisteredFile, name, no_iommu, open};
use super::ioctl;
use crate::error::{PassthroughError, PassthroughErrorKind};

/// The file of all iommufds.
pub const IOMMUFD: &str = "/dev/iommu";

/// An open iommufd with one IOAS.
#[derive(Debug)]
pub struct Ioas {
    iommufd: Iommufd,
    id: u32,
}

/// An open iommufd.
struct Iommufd(IommuFd);

impl Ioas {
    /// Opens an iommufd and makes an IOAS.
    pub fn open() -> Result<Self, PassthroughError> {
        let iommufd = Iommufd(IommuFd::new_from_fd(open(Path::new(IOMMUFD))?));
        let mut request = iommu_ioas_alloc {
            size: ioctl::argsz::<iommu_ioas_alloc>(),
            ..iommu_ioas_alloc::default()
        };
        let made = iommufd.0.alloc_iommu_ioas(&mut request);
        made.map_err(|error| PassthroughError::system(IOMMUFD, "make an ioas")(errno(error)))?;
        Ok(Self {
            iommufd,
            id: request.out_ioas_id,
        })
    }

    /// Opens the device with this folder in sysfs, and attaches it. The backend gets the device's file first.
    pub fn device(
        &self,
        sysfs: &Path,
        backend: Option<&Arc<dyn AssignedDevices>>,
    ) -> Result<Device, PassthroughError> {
        let name = name(sysfs);
        let path = device_path(sysfs);
        let path = path.map_err(|error| PassthroughErrorKind::NotBound(error).of(&name))?;
        let file = Arc::new(open(&path)?);
        let registered = RegisteredFile::new(Arc::clone(&file), backend)?;
        ioctl::bind_iommufd(&file, self.iommufd.0.as_raw_fd())
            .map_err(|source| no_iommu("bind it to an iommufd", &name, source))?;
        ioctl::attach_ioas(&file, self.id)
            .map_err(PassthroughError::system(&name, "attach it to an ioas"))?;
        let file = KernelFile {
            file,
            _member: Member::Device(registered),
        };
        Device::new(name, Box::new(file))
    }
}

/// Finds the file of a device through the folder `vfio-dev` in its folder.
pub(super) fn device_path(sysfs: &Path) -> io::Result<PathBuf> {
    for entry in fs::read_dir(sysfs.join("vfio-dev"))? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with("vfio") {
            return Ok(Path::new("/dev/vfio/devices").join(name));
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Converts the error of a request to an `io::Error` with its errno. The errno is the error's source.
fn errno(error: IommufdError) -> io::Error {
    let source = std::error::Error::source(&error);
    let number = source.and_then(|source| source.downcast_ref::<vmm_sys_util::errno::Error>());
    match number {
        Some(number) => io::Error::from_raw_os_error(number.errno()),
        None => io::Error::other(error),
    }
}

impl DmaSpace for Ioas {
    fn iova(&self) -> Result<Iova, PassthroughError> {
        let failed = PassthroughError::system(IOMMUFD, "ask for the iommu's addresses");
        let (alignment, pairs) = ioctl::ioas_ranges(&self.iommufd.0, self.id).map_err(failed)?;
        let windows = windows(&pairs).map_err(PassthroughErrorKind::Iova)?;
        Ok(Iova {
            page: alignment.max(1),
            windows,
            free_entries: None,
        })
    }

    fn map(&self, address: u64, region: &GuestRegionMmap) -> io::Result<()> {
        let request = iommu_ioas_map {
            size: ioctl::argsz::<iommu_ioas_map>(),
            flags: iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA
                | iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE
                | iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE,
            ioas_id: self.id,
            user_va: region.as_ptr() as u64,
            length: region.len(),
            iova: address,
            ..iommu_ioas_map::default()
        };
        self.iommufd.0.map_iommu_ioas(&request).map_err(errno)
    }

    fn unmap(&self, address: u64, size: u64) -> io::Result<()> {
        let mut request = iommu_ioas_unmap {
            size: ioctl::argsz::<iommu_ioas_unmap>(),
            ioas_id: self.id,
            iova: address,
            length: size,
        };
        self.iommufd.0.unmap_iommu_ioas(&mut request).map_err(errno)
    }
}

impl Drop for Ioas {
    fn drop(&mut self) {
        // The kernel does this when the file is closed, at the latest.
        let _ = self.iommufd.0.destroy_iommu_object(self.id);
    }
}

impl std::fmt::Debug for Iommufd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Iommufd").field(&self.0.as_raw_fd()).finish()
    }
}
