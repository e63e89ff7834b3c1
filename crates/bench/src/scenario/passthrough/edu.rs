//! QEMU's device edu (QEMU's `docs/specs/edu.rst`), open for all rows of this process.
//!
//! An IOMMU group can be in one container of one process, and a backend may map a device when its guest is made, so the
//! device is opened once, by the first row, and given back after the last. No backend is told of its VFIO file, which
//! KVM wants for caches that a device bypasses, and edu bypasses none.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::SubjectError;
use crate::catalogue::NeededDevice;
use crate::subject::chain;
use vmbell::passthrough::PassthroughError;
use vmbell::passthrough::device::Device;
use vmbell::passthrough::dma::DmaSpace;
use vmbell::passthrough::host::{Bus, Host, HostDevice, Identity, Obstacle};
use vmbell::passthrough::kernel::Vfio;

/// The device, for the catalogue.
pub(super) const NEEDED: NeededDevice = NeededDevice {
    name: "edu",
    is_ready: || find(&Host::system()).is_ok(),
};

/// The region of its registers.
pub(super) const REGISTERS: u32 = 0;
/// The register that says what the device is, with its value.
pub(super) const IDENTITY: (u64, u32) = (0x00, 0x0100_00ed);
/// The register that reads as the inverse of what was written to it.
pub(super) const LIVENESS: u64 = 0x04;
/// `VFIO_PCI_INTX_IRQ_INDEX` and `VFIO_PCI_MSI_IRQ_INDEX` of Linux's `uapi/linux/vfio.h`.
pub(super) const INTX: u32 = 0;
pub(super) const MSI: u32 = 1;

const VENDOR: u16 = 0x1234;
const DEVICE: u16 = 0x11e8;

/// The device that is open.
#[derive(Debug)]
pub(super) struct Edu {
    pub(super) device: Arc<Device>,
    vfio: Vfio,
}

static OPEN: Mutex<Weak<Edu>> = Mutex::new(Weak::new());

/// Why the device cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error(
        "needs QEMU's device edu (pci {VENDOR:04x}:{DEVICE:04x}), which this host does not have: the lab does \
         (vmbell lab bench 'passthrough-*' --device edu)"
    )]
    Absent,
    #[error("needs QEMU's device edu, and {name} cannot be assigned: {obstacle}")]
    Obstacle {
        name: String,
        obstacle: Box<Obstacle>,
    },
}

/// The first such device of the host that can be assigned.
fn find(host: &Host) -> Result<HostDevice, Unavailable> {
    let mut unavailable = Unavailable::Absent;
    for device in host.devices().into_iter().filter(is_edu) {
        let mut obstacles = host.obstacles(&device).into_iter();
        let Some(obstacle) = obstacles.find(Obstacle::is_blocking) else {
            return Ok(device);
        };
        unavailable = Unavailable::Obstacle {
            name: device.name,
            obstacle: Box::new(obstacle),
        };
    }
    Err(unavailable)
}

fn is_edu(device: &HostDevice) -> bool {
    device.bus == Bus::Pci
        && matches!(
            device.identity,
            Identity::Pci {
                vendor: VENDOR,
                device: DEVICE,
                ..
            }
        )
}

impl Edu {
    /// The device, which the first call opens. The row is skipped if the host has none that can be assigned, and fails
    /// if somebody else has it.
    pub(super) fn open(row: &str) -> Result<Arc<Self>, SubjectError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(edu) = open.upgrade() {
            return Ok(edu);
        }
        let found = find(&Host::system()).map_err(|error| SubjectError::Skipped(chain(&error)))?;
        let opened = Self::new(&found).map_err(|error| SubjectError::failed(row, error))?;
        let edu = Arc::new(opened);
        *open = Arc::downgrade(&edu);
        Ok(edu)
    }

    fn new(found: &HostDevice) -> Result<Self, PassthroughError> {
        let vfio = Vfio::open(&found.path)?;
        let device = vfio.device(&found.path, None)?;
        Ok(Self {
            device: Arc::new(device),
            vfio,
        })
    }

    /// The addresses that the device sees.
    pub(super) fn dma_space(&self) -> Arc<dyn DmaSpace> {
        self.vfio.dma_space()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_host_without_the_device_learns_where_there_is_one() {
        let error = find(&Host::at("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("1234:11e8"), "{error}");
        assert!(
            error.contains("vmbell lab bench 'passthrough-*' --device edu"),
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
        let error = find(&Host::at(root.path())).unwrap_err().to_string();
        assert!(
            error.contains("0000:00:03.0 cannot be assigned: no iommu group"),
            "{error}"
        );
        fs::write(device.join("device"), "0x11e9").unwrap();
        let other = find(&Host::at(root.path()));
        assert!(matches!(other, Err(Unavailable::Absent)), "{other:?}");
    }
}
