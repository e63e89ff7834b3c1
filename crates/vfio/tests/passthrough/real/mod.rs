//! The core with the kernel's VFIO, QEMU's edu and a network card, in the lab.

mod bad;
mod dma;
mod edges;
mod guests;
mod lines;
mod raw;
mod teardown;
mod told;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vmbell::eventfd::EventFd;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::AssignedDevices;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::kernel::{Container, Vfio};

use crate::passthrough::double::{ACK, RAISE, STATUS};
use testbed::{chain, count};

/// QEMU's edu: registers, INTx, MSI, DMA, and no reset.
pub const EDU: &str = "0000:00:03.0";
/// A network card: registers in memory and ports, MSI-X, and a reset.
pub const CARD: &str = "0000:00:04.0";

/// The devices are opened by one test at a time.
static DEVICES: Mutex<()> = Mutex::new(());

/// Keeps other tests from the devices.
pub fn alone_with_devices() -> MutexGuard<'static, ()> {
    DEVICES.lock()
}

/// The folder of a device of the lab.
pub fn sysfs(name: &str) -> PathBuf {
    let folder = Path::new("/sys/bus/pci/devices").join(name);
    assert!(
        folder.exists(),
        "there is no device {name}: run this by `vmbell lab --device edu --device e1000e --memory 2G -- \
         PROGRAM --ignored kvm::`"
    );
    folder
}

/// The file of a device's IOMMU group.
pub fn group_file(name: &str) -> PathBuf {
    let link = fs::read_link(sysfs(name).join("iommu_group")).unwrap();
    Path::new("/dev/vfio").join(link.file_name().unwrap())
}

/// A device that no other test has as long as this exists.
pub struct Real {
    pub device: Arc<Device>,
    pub container: Arc<Container>,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Real {
    /// Opens edu. If there is a backend, registers edu with it.
    pub fn edu(backend: Option<&Arc<dyn AssignedDevices>>) -> Self {
        let alone = alone_with_devices();
        Self {
            _alone: Some(alone),
            ..Self::open(EDU, backend)
        }
    }

    /// Opens the card.
    pub fn card() -> Self {
        let alone = alone_with_devices();
        Self {
            _alone: Some(alone),
            ..Self::open(CARD, None)
        }
    }

    /// Opens a device, for a test that already has the devices to itself.
    pub fn open(name: &str, backend: Option<&Arc<dyn AssignedDevices>>) -> Self {
        let folder = sysfs(name);
        let Vfio::Container(container) = Vfio::open(&folder).unwrap() else {
            panic!("the lab's kernel has no iommufd")
        };
        let device = container.device(&folder, backend);
        let device = device.unwrap_or_else(|error| panic!("{}", chain(&error)));
        device.enable().unwrap();
        if name == EDU {
            // edu cannot be reset, so an interrupt that another test left pending would arrive in this test.
            write(&device, ACK, u32::MAX);
            assert_eq!(read(&device, STATUS), 0);
        }
        Self {
            device: Arc::new(device),
            container,
            _alone: None,
        }
    }

    pub fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.container) as _
    }
}

pub fn read(device: &Device, at: u64) -> u32 {
    let mut word = [0; 4];
    device.read(0, at, &mut word).unwrap();
    u32::from_le_bytes(word)
}

pub fn write(device: &Device, at: u64, word: u32) {
    device.write(0, at, &word.to_le_bytes()).unwrap();
}

/// Raises edu's interrupt.
pub fn raise(device: &Device) {
    write(device, RAISE, 1);
}

/// Acknowledges all of edu's interrupts.
pub fn acknowledge(device: &Device) {
    write(device, ACK, u32::MAX);
}

/// Fails unless an eventfd is signalled soon, once.
pub fn assert_signalled(event: &EventFd) {
    let mut signals = 0;
    testbed::await_that("a signal", || {
        signals += count(event);
        signals > 0
    });
    assert_eq!(signals, 1);
}

/// Fails if an eventfd is signalled, or soon will be.
pub fn assert_silent(event: &EventFd) {
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(count(event), 0);
}
