//! The kernel's VFIO: how devices are opened and how guest memory is mapped for them.
//!
//! There are two ways: a container with IOMMU groups, which every kernel with VFIO has, and an IOAS of an iommufd with
//! a file for each device (Linux 6.6). Any thread may use them.
//!
//! ```no_run
//! use std::path::Path;
//! use vmbell_vfio::kernel::Vfio;
//!
//! # fn main() -> Result<(), vmbell_vfio::PassthroughError> {
//! let sysfs = Path::new("/sys/bus/pci/devices/0000:00:03.0");
//! let device = Vfio::open(sysfs)?.device(sysfs, None)?;
//! println!("{} has {} regions", device.name(), device.regions().len());
//! # Ok(())
//! # }
//! ```

mod container;
mod device_file;
mod ioas;
mod ioctl;

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access};
use vmbell_hypervisor::AssignedDevices;

use super::device::Device;
use super::dma::DmaSpace;
use super::error::PassthroughError;

pub use container::{CONTAINER, Container};
pub use ioas::{IOMMUFD, Ioas};

/// The kernel's VFIO, open for the devices of one guest.
#[derive(Clone, Debug)]
pub enum Vfio {
    /// Groups in a container.
    Container(Arc<Container>),
    /// Files of devices, attached to an IOAS.
    Ioas(Arc<Ioas>),
}

impl Vfio {
    /// Opens VFIO for the device with this folder in sysfs: an iommufd if this process may open it and the device's own
    /// file, otherwise a container.
    pub fn open(sysfs: &Path) -> Result<Self, PassthroughError> {
        let may_open = |path: &Path| access(path, Access::READ_OK | Access::WRITE_OK).is_ok();
        let has_file = ioas::device_path(sysfs).is_ok_and(|path| may_open(&path));
        if has_file && may_open(Path::new(IOMMUFD)) {
            return Ok(Self::Ioas(Arc::new(Ioas::open()?)));
        }
        Ok(Self::Container(Arc::new(Container::open()?)))
    }

    /// Opens the device with this folder in sysfs. Its VFIO file is registered with `backend` first. Without a
    /// `backend` the device can be opened before its guest exists.
    pub fn device(
        &self,
        sysfs: &Path,
        backend: Option<&Arc<dyn AssignedDevices>>,
    ) -> Result<Device, PassthroughError> {
        match self {
            Self::Container(container) => container.device(sysfs, backend),
            Self::Ioas(ioas) => ioas.device(sysfs, backend),
        }
    }

    /// The address space that the devices see.
    pub fn dma_space(&self) -> Arc<dyn DmaSpace> {
        match self {
            Self::Container(container) => Arc::clone(container) as _,
            Self::Ioas(ioas) => Arc::clone(ioas) as _,
        }
    }
}
