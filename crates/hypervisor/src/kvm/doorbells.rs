//! Registers and removes one ioeventfd on the caller's thread, and translates the errno of a refusal into an error of
//! [`doorbell`](vmbell::doorbell).

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

use kvm_bindings::{
    kvm_ioeventfd, kvm_ioeventfd_flag_nr_datamatch, kvm_ioeventfd_flag_nr_deassign,
    kvm_ioeventfd_flag_nr_pio,
};
use kvm_ioctls::VmFd;
use vmm_sys_util::eventfd::EventFd;

use super::super::{Capability, Error, Payload, Support};
use super::arch::host::NO_PORTS;
use super::ioctl;
use super::system::System;
use vmbell::doorbell::{DoorbellError, IoEventAddress, Pattern};
use vmbell::eventfd::EventFdError;

/// Why KVM has no doorbells on hypercall numbers.
pub const NO_HYPERCALL_DOORBELLS: &str = "kvm has ioeventfds on ports and memory only";

/// A flag of the module `kvm_ioeventfd`, for ioeventfds that share their address and length: a write signals all that
/// match (kernel/kvm-ioeventfd/kvm_ioeventfd.h).
const MIXED: u32 = 1 << 31;

/// Another flag of the module: the kernel stores the value that rings the doorbell at an address in the VMM.
const PAYLOAD: u32 = 1 << 30;
/// Where `pad` of the request holds this address.
const PAYLOAD_IN_PAD: Range<usize> = 4..12;

const NO_PAYLOAD: &str = "kvm stores no value of a doorbell without the module kvm_ioeventfd";

/// Returns whether the kernel can signal several eventfds for one write.
pub fn mixed_groups(system: &System) -> Support {
    of_module(
        system,
        "kvm signals one eventfd a write without the module kvm_ioeventfd",
    )
}

/// Returns whether the kernel can store the value that rings a doorbell.
pub fn payloads(system: &System) -> Support {
    of_module(system, NO_PAYLOAD)
}

fn of_module(system: &System, otherwise: &str) -> Support {
    match system.fd.create_vm() {
        Ok(vm) if has_module(&vm) => Support::Yes,
        Ok(_) => Support::No(otherwise.to_owned()),
        Err(error) => Support::No(format!("cannot ask, kvm creates no vm: {error}")),
    }
}

/// Returns whether the module serves this VM. The module knows the flag and goes on to check the descriptor, which is
/// invalid (EBADF). A kernel without the module refuses the flag (EINVAL).
pub fn has_module(vm: &VmFd) -> bool {
    let request = kvm_ioeventfd {
        len: 4,
        fd: -1,
        flags: MIXED,
        ..kvm_ioeventfd::default()
    };
    let refused = ioctl::ioeventfd(vm, &request).err();
    refused.and_then(|error| error.raw_os_error()) == Some(libc::EBADF)
}

/// Like [`assign`], but needs [`has_module`]: the kernel signals `event` and all other matches that have this flag.
pub fn assign_mixed(
    vm: &VmFd,
    event: &EventFd,
    address: IoEventAddress,
    pattern: Pattern,
) -> Result<(), Error> {
    call(vm, event, address, pattern, MIXED, None)
}

/// Registers an ioeventfd: once this returns, the kernel signals `event` for matching writes.
pub fn assign(
    vm: &VmFd,
    event: &EventFd,
    address: IoEventAddress,
    pattern: Pattern,
) -> Result<(), Error> {
    call(vm, event, address, pattern, 0, None)
}

/// The last value of a doorbell, which the kernel stores.
#[derive(Debug, Default)]
pub struct StoredValue(AtomicU64);

impl Payload for StoredValue {
    fn value(&self) -> Option<u64> {
        Some(u64::from_le(self.0.load(Acquire)))
    }
}

/// Registers an ioeventfd with a payload: the kernel stores the value of each write of this pattern's length and then
/// signals `event`. The returned value has to live until the ioeventfd is removed or the VM is gone.
pub fn assign_payload(
    vm: &VmFd,
    event: &EventFd,
    address: IoEventAddress,
    pattern: Pattern,
) -> Result<Box<StoredValue>, Error> {
    if !has_module(vm) {
        return Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::PayloadDoorbell,
            reason: NO_PAYLOAD.to_owned(),
        });
    }
    let payload = Box::<StoredValue>::default();
    call(vm, event, address, pattern, PAYLOAD, Some(&payload))?;
    Ok(payload)
}

/// Removes an ioeventfd: once this returns, the kernel no longer signals `event` for this
/// registration.
pub fn deassign(
    vm: &VmFd,
    event: &EventFd,
    address: IoEventAddress,
    pattern: Pattern,
) -> Result<(), Error> {
    call(
        vm,
        event,
        address,
        pattern,
        1 << kvm_ioeventfd_flag_nr_deassign,
        None,
    )
}

fn call(
    vm: &VmFd,
    event: &EventFd,
    address: IoEventAddress,
    pattern: Pattern,
    flags: u32,
    payload: Option<&StoredValue>,
) -> Result<(), Error> {
    let bus = match address {
        IoEventAddress::Pio(_) => match NO_PORTS {
            None => 1 << kvm_ioeventfd_flag_nr_pio,
            Some(reason) => {
                return Err(Error::Unsupported {
                    backend: "kvm",
                    capability: Capability::PioDoorbell,
                    reason: reason.to_owned(),
                });
            }
        },
        IoEventAddress::Mmio(_) => 0,
        IoEventAddress::Hypercall(_) => {
            return Err(Error::Unsupported {
                backend: "kvm",
                capability: Capability::HypercallDoorbell,
                reason: NO_HYPERCALL_DOORBELLS.to_owned(),
            });
        }
    };
    let value = pattern
        .value
        .map_or(0, |_| 1 << kvm_ioeventfd_flag_nr_datamatch);
    let mut request = kvm_ioeventfd {
        datamatch: pattern.value.unwrap_or_default(),
        addr: address.value(),
        len: pattern.len,
        fd: event.as_raw_fd(),
        flags: flags | bus | value,
        ..kvm_ioeventfd::default()
    };
    if let Some(StoredValue(value)) = payload {
        let address = value.as_ptr() as u64;
        request.pad[PAYLOAD_IN_PAD].copy_from_slice(&address.to_ne_bytes());
    }
    ioctl::ioeventfd(vm, &request).map_err(|error| refusal(error, event, address, pattern))
}

/// Returns the rule that the kernel's errno reports (Linux `virt/kvm/eventfd.c`), or any other error unchanged.
fn refusal(error: io::Error, event: &EventFd, address: IoEventAddress, pattern: Pattern) -> Error {
    let len = pattern.len;
    let rule = match error.raw_os_error() {
        Some(libc::EEXIST) => DoorbellError::Exists { address, pattern },
        Some(libc::ENOENT) => DoorbellError::NotFound { address, pattern },
        Some(libc::EBADF) => {
            let fd = event.as_raw_fd();
            EventFdError::BadFd { fd }.into()
        }
        Some(libc::EINVAL) if address.value().checked_add(len.into()).is_none() => {
            DoorbellError::Wraps { address, len }
        }
        _ => {
            return Error::System {
                operation: "register or remove an ioeventfd",
                source: error,
            };
        }
    };
    rule.into()
}
