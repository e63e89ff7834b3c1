//! KVM's VFIO pseudo device, which has to know each VFIO file whose device is assigned to the guest (Linux
//! `Documentation/virt/kvm/devices/vfio.rst`). A VM has at most one, created for its first file, on any thread.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use kvm_bindings::{
    KVM_DEV_VFIO_FILE, KVM_DEV_VFIO_FILE_ADD, KVM_DEV_VFIO_FILE_DEL, kvm_create_device,
    kvm_device_attr, kvm_device_type_KVM_DEV_TYPE_VFIO,
};
use kvm_ioctls::{DeviceFd, VmFd};

use super::super::Error;

use vmbell::sync::Mutex;

/// The pseudo device; `None` until the first file is added.
#[derive(Debug, Default)]
pub struct VfioFiles(Mutex<Option<DeviceFd>>);

impl VfioFiles {
    /// Adds a file to the VM's pseudo device.
    pub fn add(&self, vm: &VmFd, file: BorrowedFd<'_>) -> Result<(), Error> {
        let mut device = self.0.lock();
        let device = match &mut *device {
            Some(device) => device,
            none => none.insert(create(vm)?),
        };
        set(device, KVM_DEV_VFIO_FILE_ADD, file).map_err(Error::system(
            "tell kvm of a vfio file (KVM_DEV_VFIO_FILE_ADD)",
        ))
    }

    /// Removes a file: the guest no longer has one of its devices.
    pub fn remove(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        let device = self.0.lock();
        let Some(device) = &*device else {
            return Ok(());
        };
        set(device, KVM_DEV_VFIO_FILE_DEL, file).map_err(Error::system(
            "make kvm forget a vfio file (KVM_DEV_VFIO_FILE_DEL)",
        ))
    }
}

fn create(vm: &VmFd) -> Result<DeviceFd, Error> {
    let mut request = kvm_create_device {
        type_: kvm_device_type_KVM_DEV_TYPE_VFIO,
        ..kvm_create_device::default()
    };
    vm.create_device(&mut request).map_err(Error::system(
        "create kvm's device of vfio (KVM_CREATE_DEVICE)",
    ))
}

fn set(device: &DeviceFd, attribute: u32, file: BorrowedFd<'_>) -> Result<(), kvm_ioctls::Error> {
    let number: RawFd = file.as_raw_fd();
    let request = kvm_device_attr {
        group: KVM_DEV_VFIO_FILE,
        attr: attribute.into(),
        // The kernel reads the number through this pointer during the call.
        addr: &raw const number as u64,
        ..kvm_device_attr::default()
    };
    device.set_device_attr(&request)
}
