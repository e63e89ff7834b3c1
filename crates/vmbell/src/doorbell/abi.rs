//! The kernel's request, `struct kvm_ioeventfd`, parsed by the kernel's rules.
//!
//! It is for tests that run one list of requests on KVM and on a [`Doorbells`], and for code that has requests
//! of the ioctl but no KVM. The order of the checks is that of `kvm_ioeventfd` in
//! Linux `virt/kvm/eventfd.c`, because it decides which error a request with two mistakes gets.

use std::os::fd::RawFd;

use super::{
    Barrier, DoorbellError, Doorbells, EventId, IoEventAddress, Pattern, RegisterError, Sharing,
};

/// Only writes of the value [`KvmIoeventfd::datamatch`] match.
pub const FLAG_DATAMATCH: u32 = 1 << 0;
/// The address is an I/O port.
pub const FLAG_PIO: u32 = 1 << 1;
/// The request removes a doorbell instead of registering it.
pub const FLAG_DEASSIGN: u32 = 1 << 2;
/// The address is a subchannel of virtio-ccw; [`FLAG_PIO`] wins over it.
pub const FLAG_VIRTIO_CCW_NOTIFY: u32 = 1 << 3;

const FLAGS: u32 = FLAG_DATAMATCH | FLAG_PIO | FLAG_DEASSIGN | FLAG_VIRTIO_CCW_NOTIFY;

/// The argument of `KVM_IOEVENTFD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct KvmIoeventfd {
    /// The value to match, if [`FLAG_DATAMATCH`] is set.
    pub datamatch: u64,
    /// The port, guest-physical address or subchannel.
    pub addr: u64,
    /// Width in bytes: 1, 2, 4, 8, or 0 for any.
    pub len: u32,
    /// Descriptor of the eventfd.
    pub fd: RawFd,
    /// A set of the constants `FLAG_*`.
    pub flags: u32,
    /// Padding, ignored.
    pub pad: [u8; 36],
}

impl Default for KvmIoeventfd {
    fn default() -> Self {
        Self {
            datamatch: 0,
            addr: 0,
            len: 0,
            fd: -1,
            flags: 0,
            pad: [0; 36],
        }
    }
}

/// A request that passed the checks of [`KvmIoeventfd::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether the request removes a doorbell instead of registering it.
    pub deassign: bool,
    /// Identity of the eventfd.
    pub event: EventId,
    /// The address of the doorbell.
    pub address: IoEventAddress,
    /// The width and value to match.
    pub pattern: Pattern,
}

impl KvmIoeventfd {
    /// Does all checks that do not depend on other registrations.
    pub fn parse(&self) -> Result<Request, DoorbellError> {
        let deassign = self.has(FLAG_DEASSIGN);
        let address = if self.has(FLAG_PIO) {
            IoEventAddress::Pio(self.addr)
        } else {
            IoEventAddress::Mmio(self.addr)
        };
        let pattern = Pattern {
            len: self.len,
            value: self.has(FLAG_DATAMATCH).then_some(self.datamatch),
        };
        // A removal needs no such check: it looks for an equal registration, and there is none for a bad request.
        if !deassign {
            pattern.check_range(address)?;
            let flags = self.flags & !FLAGS;
            if flags != 0 {
                return Err(DoorbellError::Flags { flags });
            }
            pattern.check_value()?;
        }
        let event = EventId::of_raw(self.fd)?;
        if self.has(FLAG_VIRTIO_CCW_NOTIFY) && !self.has(FLAG_PIO) {
            // KVM on x86 accepts it and never signals; guests here have no subchannels.
            let subchannel = self.addr;
            return Err(DoorbellError::Ccw { subchannel });
        }
        Ok(Request {
            deassign,
            event,
            address,
            pattern,
        })
    }

    const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl Request {
    /// Registers or removes the doorbell; returns the signal number that a removal freed.
    ///
    /// `signal` is as in [`Doorbells::register`], `barrier` as in [`Doorbells::unregister`].
    pub fn apply<E>(
        self,
        doorbells: &mut Doorbells<'_>,
        signal: impl FnOnce() -> Result<u32, E>,
        barrier: &dyn Barrier,
    ) -> Result<Option<u32>, RegisterError<E>> {
        let Self {
            event,
            address,
            pattern,
            ..
        } = self;
        if self.deassign {
            let freed = doorbells.unregister(event, address, pattern, barrier)?;
            return Ok(Some(freed));
        }
        doorbells.register(event, address, pattern, Sharing::Exclusive, signal)?;
        Ok(None)
    }
}

// Miri has no /proc/self/fdinfo, which has the identity of an eventfd.
#[cfg(test)]
#[cfg(not(miri))]
#[path = "abi_test.rs"]
mod tests;
