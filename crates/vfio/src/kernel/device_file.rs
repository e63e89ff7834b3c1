//! The files of the kernel's VFIO: how they are opened, and the registration of a device's file with the backend.
//!
//! The registration names the device's IOMMU group, or the file itself where the kernel has a file for each device.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use vmbell_hypervisor::AssignedDevices;

use super::super::device::{DeviceFile, DeviceInfo, SetIrqs};
use super::ioctl;
use crate::error::{PassthroughError, PassthroughErrorKind};

/// Opens a file of VFIO.
pub(super) fn open(path: &Path) -> Result<File, PassthroughErrorKind> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|source| PassthroughErrorKind::Open {
        path: path.to_owned(),
        source,
    })
}

/// Returns the name of a device, which is the name of its folder.
pub(super) fn name(sysfs: &Path) -> String {
    let name = sysfs.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Makes the error of a device whose IOMMU cannot be used.
pub(super) fn no_iommu(operation: &'static str, name: &str, source: io::Error) -> PassthroughError {
    if source.raw_os_error() == Some(libc::EPERM) {
        return PassthroughErrorKind::UnsafeInterrupts(source).of(name);
    }
    PassthroughError::system(name, operation)(source)
}

/// The file of a device of the kernel's VFIO.
#[derive(Debug)]
pub struct KernelFile {
    // Dropped first: a group can leave its container only when its devices are closed.
    pub(super) file: Arc<File>,
    pub(super) _member: Member,
}

impl DeviceFile for KernelFile {
    fn info(&self) -> io::Result<DeviceInfo> {
        ioctl::device_info(&self.file)
    }

    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>> {
        ioctl::region_info(&self.file, index, room)
    }

    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        ioctl::irq_info(&self.file, index)
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        ioctl::set_irqs(&self.file, request)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn reset(&self) -> io::Result<()> {
        ioctl::reset(&self.file)
    }

    fn mappable(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// A VFIO file that is registered with the backend until the value is dropped.
pub(super) struct RegisteredFile {
    pub(super) file: Arc<File>,
    backend: Option<Arc<dyn AssignedDevices>>,
}

impl RegisteredFile {
    /// Registers `file` with the backend.
    pub(super) fn new(
        file: Arc<File>,
        backend: Option<&Arc<dyn AssignedDevices>>,
    ) -> Result<Self, PassthroughError> {
        if let Some(backend) = backend {
            backend.add_vfio_file(file.as_fd())?;
        }
        Ok(Self {
            file,
            backend: backend.cloned(),
        })
    }
}

impl Drop for RegisteredFile {
    fn drop(&mut self) {
        // The backend forgets the file when the guest ends, at the latest.
        if let Some(backend) = &self.backend {
            let _ = backend.remove_vfio_file(self.file.as_fd());
        }
    }
}

/// A group in a container.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) number: u32,
    pub(super) registered: RegisteredFile,
    // Kept: the container's mappings end with it.
    pub(super) _container: Arc<File>,
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel does this when the file is closed, at the latest.
        let _ = ioctl::unset_container(&self.registered.file);
    }
}

/// What an open device keeps alive.
#[derive(Debug)]
pub(super) enum Member {
    Group(#[allow(dead_code, reason = "kept until the device is closed")] Arc<Group>),
    Device(#[allow(dead_code, reason = "kept until the device is closed")] RegisteredFile),
}

impl fmt::Debug for RegisteredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredFile").field(&self.file).finish()
    }
}
