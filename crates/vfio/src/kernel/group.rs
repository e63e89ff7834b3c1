//! What a device's file belongs to, and what the backend was told of: an IOMMU group, or the file itself where the
//! kernel has a file for each device.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::super::PassthroughError;
use super::ioctl;
use vmbell_hypervisor::AssignedDevices;

/// A VFIO file of which the backend knows, as long as this exists.
pub(super) struct Told {
    pub(super) file: Arc<File>,
    backend: Option<Arc<dyn AssignedDevices>>,
}

impl Told {
    /// Tells the backend of `file`.
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

impl Drop for Told {
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
    pub(super) told: Told,
    // Kept: the container's mappings end with it.
    pub(super) _container: Arc<File>,
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel does it when the file is closed, at the latest.
        let _ = ioctl::unset_container(&self.told.file);
    }
}

/// What an open device keeps.
#[derive(Debug)]
pub(super) enum Member {
    Group(#[allow(dead_code, reason = "kept until the device is closed")] Arc<Group>),
    Device(#[allow(dead_code, reason = "kept until the device is closed")] Told),
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.file).finish()
    }
}
