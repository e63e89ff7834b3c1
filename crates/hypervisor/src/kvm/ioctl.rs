//! The KVM ioctls for which kvm-ioctls has no suitable function. The calling thread makes the ioctl.
//!
//! `KVM_RUN`: `run` of kvm-ioctls returns the data of string port accesses without their width.
//! `KVM_IOEVENTFD`: its `register_ioevent` cannot express "any value of this width". `KVM_GET_STATS_FD`: missing.
//! `KVM_ENABLE_CAP`: its `enable_cap` takes the whole structure.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

use kvm_bindings::{KVMIO, kvm_enable_cap, kvm_ioeventfd};
use kvm_ioctls::{VcpuFd, VmFd};
use vmm_sys_util::ioctl::{ioctl, ioctl_with_ref};
use vmm_sys_util::{ioctl_io_nr, ioctl_iow_nr};

use crate::Error;

ioctl_io_nr!(KVM_RUN, KVMIO, 0x80);
ioctl_iow_nr!(KVM_IOEVENTFD, KVMIO, 0x79, kvm_ioeventfd);
ioctl_io_nr!(KVM_GET_STATS_FD, KVMIO, 0xce);

/// Enters the guest and returns at its next exit, which the run page describes. Fails with EINTR if a signal
/// interrupted it.
#[inline]
pub fn run(vcpu: &VcpuFd) -> io::Result<()> {
    // SAFETY: `vcpu` is an open vCPU; the call takes no pointer, and writes to the run page only,
    // which is read by raw pointers (`RunPage`).
    if unsafe { ioctl(vcpu, KVM_RUN()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Registers or removes an ioeventfd, depending on the flags of `request`.
pub fn ioeventfd(vm: &VmFd, request: &kvm_ioeventfd) -> io::Result<()> {
    // SAFETY: `vm` is an open VM, and `request` is the structure that the call reads. If it has the address of a
    // payload, the payload is a `StoredValue`, an atomic on the heap: the `Doorbell` owns it until the ioeventfd is
    // removed, and never frees it if the removal fails. Once the VM is gone, no vCPU can store to it.
    if unsafe { ioctl_with_ref(vm, KVM_IOEVENTFD(), request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Opens the file of the vCPU's statistics.
pub fn statistics(vcpu: &VcpuFd) -> io::Result<File> {
    // SAFETY: `vcpu` is an open vCPU; the call takes no pointer.
    let fd = unsafe { ioctl(&vcpu.as_raw_fd(), KVM_GET_STATS_FD()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The vCPU's descriptor.
pub fn descriptor(vcpu: &VcpuFd) -> BorrowedFd<'_> {
    // SAFETY: `vcpu` is open for as long as it is borrowed.
    unsafe { BorrowedFd::borrow_raw(vcpu.as_raw_fd()) }
}

/// Enables a capability of the VM (`KVM_ENABLE_CAP`).
pub fn enable(vm: &VmFd, cap: u32, argument: u64) -> Result<(), Error> {
    let mut request = kvm_enable_cap {
        cap,
        ..kvm_enable_cap::default()
    };
    request.args[0] = argument;
    vm.enable_cap(&request)
        .map_err(Error::system("enable a capability of the vm"))
}
