//! The kernel's own request, `struct kvm_ioeventfd`, read by the kernel's own rules.
//!
//! For tests that run one list of requests on KVM and on a [`Doorbells`], and for whoever speaks
//! the ioctl to something that is not KVM. The order of the checks is that of `kvm_ioeventfd` in
//! Linux `virt/kvm/eventfd.c`, because it decides which error a doubly bad request gets.

use std::os::fd::RawFd;

use super::{
    Barrier, DoorbellError, Doorbells, EventId, IoEventAddress, Pattern, RegisterError, Sharing,
};

/// Match [`KvmIoeventfd::datamatch`].
pub const FLAG_DATAMATCH: u32 = 1 << 0;
/// The address is an I/O port.
pub const FLAG_PIO: u32 = 1 << 1;
/// Remove instead of register.
pub const FLAG_DEASSIGN: u32 = 1 << 2;
/// The address is a subchannel of virtio-ccw; [`FLAG_PIO`] wins over it.
pub const FLAG_VIRTIO_CCW_NOTIFY: u32 = 1 << 3;

const FLAGS: u32 = FLAG_DATAMATCH | FLAG_PIO | FLAG_DEASSIGN | FLAG_VIRTIO_CCW_NOTIFY;

/// The argument of `KVM_IOEVENTFD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct KvmIoeventfd {
    /// The value to match, if the flags say so.
    pub datamatch: u64,
    /// Where.
    pub addr: u64,
    /// Width: 0, 1, 2, 4 or 8.
    pub len: u32,
    /// The eventfd.
    pub fd: RawFd,
    /// `FLAG_*`.
    pub flags: u32,
    /// Never looked at.
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

/// A request that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Remove instead of register.
    pub deassign: bool,
    /// The eventfd.
    pub event: EventId,
    /// Where.
    pub address: IoEventAddress,
    /// What.
    pub pattern: Pattern,
}

impl KvmIoeventfd {
    /// Checks everything that needs no other registration.
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
        // Removal looks for an equal registration and finds none if the request is bad.
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
            // x86 KVM takes it and never fires it; no guest of ours has a subchannel.
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
    /// Does what the request asks for; gives the signal number that a removal freed.
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

// Miri has no /proc/self/fdinfo, where an eventfd says which it is.
#[cfg(test)]
#[cfg(not(miri))]
#[path = "abi_test.rs"]
mod tests;
