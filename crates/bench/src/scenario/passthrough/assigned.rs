//! A device of the host that rows assign to their guests, opened once for all rows of this process.
//!
//! An IOMMU group can be in only one container of one process, and a backend may map a device when its guest is made.
//! So the first row opens the device, and it is closed after the last row. No backend gets its VFIO file: KVM needs the
//! file only for devices that bypass caches, and these do not.

use std::sync::{Arc, Weak};

use crate::NeededDevice;
use crate::SubjectError;
use vmbell::sync::Mutex;
use vmbell_hypervisor::chain;
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::host::{Host, HostDevice, Obstacle};
use vmbell_vfio::kernel::Vfio;

/// The region of the device's registers.
pub(super) const REGISTERS: u32 = 0;

/// A kind of device, and this process's device of that kind once it is open.
pub(super) struct AssignedModel {
    pub(super) needed: NeededDevice,
    /// What the device is, for a user whose host has no such device.
    pub(super) words: &'static str,
    /// The command that runs the device's rows on a host that has such a device.
    pub(super) command: &'static str,
    /// Whether a device of the host is of this kind.
    pub(super) is: fn(&HostDevice) -> bool,
    /// Makes the device ready for a guest, whose program does the rest.
    pub(super) prepare: fn(&Device) -> Result<(), PassthroughError>,
    pub(super) open: Mutex<Weak<OpenedDevice>>,
}

/// An open device.
#[derive(Debug)]
pub(super) struct OpenedDevice {
    pub(super) device: Arc<Device>,
    vfio: Vfio,
}

/// Why the device cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceUnavailable {
    #[error("needs {words}, which this host does not have: the lab does ({command})")]
    Absent {
        words: &'static str,
        command: &'static str,
    },
    #[error("needs {words}, and {name} cannot be assigned: {obstacle}")]
    Obstacle {
        words: &'static str,
        name: String,
        obstacle: Box<Obstacle>,
    },
}

impl AssignedModel {
    /// Finds the host's first such device that can be assigned.
    pub(super) fn find(&self, host: &Host) -> Result<HostDevice, DeviceUnavailable> {
        let (words, command) = (self.words, self.command);
        let mut unavailable = DeviceUnavailable::Absent { words, command };
        for device in host.devices().into_iter().filter(self.is) {
            let mut obstacles = host.obstacles(&device).into_iter();
            let Some(obstacle) = obstacles.find(Obstacle::is_blocking) else {
                return Ok(device);
            };
            unavailable = DeviceUnavailable::Obstacle {
                words,
                name: device.name,
                obstacle: Box::new(obstacle),
            };
        }
        Err(unavailable)
    }

    /// Returns the device, after opening it in the first call. The row is skipped if the host has no such device that
    /// can be assigned, and fails if another process uses it.
    pub(super) fn open(&self, row: &str) -> Result<Arc<OpenedDevice>, SubjectError> {
        let mut open = self.open.lock();
        if let Some(assigned) = open.upgrade() {
            return Ok(assigned);
        }
        let found = self.find(&Host::system());
        let found = found.map_err(|error| SubjectError::Skipped(chain(&error)))?;
        let opened = OpenedDevice::new(&found).map_err(|error| SubjectError::failed(row, error))?;
        let assigned = Arc::new(opened);
        *open = Arc::downgrade(&assigned);
        Ok(assigned)
    }
}

impl OpenedDevice {
    fn new(found: &HostDevice) -> Result<Self, PassthroughError> {
        let vfio = Vfio::open(&found.path)?;
        let device = vfio.device(&found.path, None)?;
        Ok(Self {
            device: Arc::new(device),
            vfio,
        })
    }

    /// The addresses that the device can access.
    pub(super) fn dma_space(&self) -> Arc<dyn DmaSpace> {
        self.vfio.dma_space()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::hardware::{EDU, PL031};
    use super::*;

    #[test]
    fn a_host_without_the_device_learns_where_there_is_one() {
        let none = Host::at("/nonexistent");
        let error = EDU.find(&none).unwrap_err().to_string();
        assert!(error.contains("1234:11e8"), "{error}");
        assert!(
            error.contains("vmbell lab -- vmbell bench 'passthrough-*'"),
            "{error}"
        );
        let error = PL031.find(&none).unwrap_err().to_string();
        assert!(
            error.contains("vmbell lab --arch aarch64 -- vmbell bench 'platform-irq-*'"),
            "{error}"
        );
    }

    #[test]
    fn what_stands_in_the_devices_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/bus/pci/devices/0000:00:03.0");
        fs::create_dir_all(&device).unwrap();
        for (file, text) in [
            ("vendor", "0x1234"),
            ("device", "0x11e8"),
            ("class", "0x00ff00"),
        ] {
            fs::write(device.join(file), text).unwrap();
        }
        let error = EDU.find(&Host::at(root.path())).unwrap_err().to_string();
        assert!(
            error.contains("0000:00:03.0 cannot be assigned: no iommu group"),
            "{error}"
        );
        fs::write(device.join("device"), "0x11e9").unwrap();
        let other = EDU.find(&Host::at(root.path()));
        assert!(
            matches!(other, Err(DeviceUnavailable::Absent { .. })),
            "{other:?}"
        );
    }
}
