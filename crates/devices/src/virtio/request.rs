//! A request: a chain that the driver has made available, while the device has it.
//!
//! A handler completes a request at once, or takes it as a [`Pending`] one, which any thread completes later, in any order.
//! If the driver resets the device meanwhile, nothing of the request reaches guest memory any more.

use std::fmt;
use std::sync::{Arc, RwLockReadGuard};

use vm_memory::GuestMemoryMmap;

use super::live_ring::LiveRing;
use super::queue::HandlerError;
use super::slices::{Readable, SliceList, Writable};
use vmbell::virtqueue::{Buffer, Chain, Head};

/// A request while a handler has it. All of its buffers are in guest memory.
#[derive(Debug)]
#[must_use = "a request that is neither completed nor deferred is lost to the driver"]
pub struct Request<'r> {
    pub(super) parts: Parts<'r>,
    pub(super) chain: &'r Chain,
    pub(super) taken: Taken,
    pub(super) ring: &'r Arc<LiveRing>,
}

/// The two directions of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'r> {
    readable: Readable<'r>,
    writable: Writable<'r>,
}

impl<'r> Parts<'r> {
    /// Looks the buffers of a chain up, and puts them into `slices`.
    #[inline]
    pub(super) fn look_up<'m: 'r>(
        memory: &'m GuestMemoryMmap,
        chain: &Chain,
        slices: &'r mut SliceList<'m>,
    ) -> Result<Self, HandlerError> {
        slices.clear();
        slices.look_up(memory, chain.readable())?;
        let count = slices.as_slice().len();
        slices.look_up(memory, chain.writable())?;
        let parts = slices.as_slice().split_at(count);
        Ok(Self {
            readable: Readable::new(parts.0, chain.readable_len() as usize),
            writable: Writable::new(parts.1, chain.writable_len() as usize),
        })
    }
}

/// How many bytes buffers have: below 4 GiB, as those of a chain.
fn len(buffers: &[Buffer]) -> usize {
    buffers.iter().map(|buffer| buffer.len as usize).sum()
}

/// A chain that was taken from a ring.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) head: Head,
    /// How many times the queue was stopped before.
    pub(super) stops: u64,
    /// How many chains were taken before, since the start of the queue.
    pub(super) number: u64,
}

/// What a handler has done with a request: it is complete, or it is pending.
#[derive(Debug)]
#[must_use = "the queue has to give the request back"]
pub struct Handled(pub(super) Option<(Taken, u32)>);

impl Request<'_> {
    /// The index of the request's queue.
    pub fn queue(&self) -> u16 {
        self.ring.index()
    }

    /// What the device reads.
    pub const fn readable(&self) -> Readable<'_> {
        self.parts.readable
    }

    /// What the device writes.
    pub const fn writable(&self) -> Writable<'_> {
        self.parts.writable
    }

    /// Completes the request, with this number of bytes written, from the first one on.
    #[inline]
    pub fn complete(self, written: usize) -> Handled {
        Handled(Some((self.taken, used_len(written))))
    }

    /// Takes the request, to complete it later.
    pub fn defer(self) -> (Pending, Handled) {
        self.ring.expect_late();
        let pending = Pending {
            readable: self.chain.readable().into(),
            writable: self.chain.writable().into(),
            taken: self.taken,
            ring: Arc::clone(self.ring),
        };
        (pending, Handled(None))
    }
}

/// The length of a used element. A driver is given no request of 4 GiB.
fn used_len(written: usize) -> u32 {
    u32::try_from(written).unwrap_or(u32::MAX)
}

/// A request that is complete later, on any thread. One that is dropped stays with the device until the driver resets it,
/// and with `VIRTIO_F_IN_ORDER` so do those after it.
#[must_use = "a request that is not completed is lost to the driver"]
pub struct Pending {
    readable: Box<[Buffer]>,
    writable: Box<[Buffer]>,
    taken: Taken,
    ring: Arc<LiveRing>,
}

impl Pending {
    /// Borrows the buffers; `None` if the driver has reset the device or the queue. A reset waits until they are given
    /// back, so this must not wait for the driver.
    pub fn buffers(&self) -> Option<Buffers<'_>> {
        let running = self.ring.running(self.taken.stops)?;
        let mut slices = SliceList::new();
        let mut look_up = |buffers| {
            let looked_up = slices.look_up(self.ring.memory(), buffers);
            looked_up.ok().map(|()| slices.as_slice().len())
        };
        let readable = look_up(&self.readable)?;
        look_up(&self.writable)?;
        Some(Buffers {
            pending: self,
            slices,
            readable,
            _running: running,
        })
    }

    /// Completes the request, with this number of bytes written, from the first one on. Does nothing if the driver has
    /// reset the device or the queue. Interrupts the driver, unless another thread serves the queue and will do so.
    pub fn complete(self, written: usize) {
        self.ring.complete_late(self.taken, used_len(written));
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("readable", &self.readable)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

/// The buffers of a [`Pending`] request. While they are borrowed the device is not reset.
pub struct Buffers<'p> {
    pending: &'p Pending,
    slices: SliceList<'p>,
    /// How many of the slices are readable.
    readable: usize,
    _running: RwLockReadGuard<'p, u64>,
}

impl Buffers<'_> {
    /// What the device reads.
    pub fn readable(&self) -> Readable<'_> {
        let slices = &self.slices.as_slice()[..self.readable];
        Readable::new(slices, len(&self.pending.readable))
    }

    /// What the device writes.
    pub fn writable(&self) -> Writable<'_> {
        let slices = &self.slices.as_slice()[self.readable..];
        Writable::new(slices, len(&self.pending.writable))
    }
}

impl fmt::Debug for Buffers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffers").field(self.pending).finish()
    }
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;
