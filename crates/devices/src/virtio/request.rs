//! A request: a chain that the driver has made available, while the device has it.
//!
//! A handler completes a request at once, or takes it as a [`Pending`] request, which any thread completes later.
//! Requests may complete in any order. After a reset by the driver, nothing of the request reaches guest memory.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::driver::HandlerError;
use super::live_ring::{Late, Live, LiveRing, Taken, used_len};
use super::slices::{Readable, SliceList, Writable};
use vmbell_virtqueue::{Buffer, Head};

/// The work of a device on the chains that its driver makes available.
pub trait Handler: Send + Sync {
    /// The device ID (virtio 1.3, 5).
    const DEVICE_ID: u32;
    /// The device's name, for messages.
    const NAME: &'static str = "virtio";

    /// The features that only this type of device has (bits 0 to 23). Defaults to none.
    fn features(&self) -> u64 {
        0
    }

    /// Called when the driver has accepted these features, before its first request. No request is being handled;
    /// requests that are still pending from before a reset no longer have an effect.
    fn accepted(&self, _features: u64) {}

    /// The configuration that only this type of device has. Defaults to none.
    fn config(&self) -> &[u8] {
        &[]
    }

    /// The queues whose chains wait for the host, each with a descriptor that is readable when the host has data for
    /// the chains or room for their data, or when [pending](Pending) requests are complete. Defaults to none. The
    /// thread that serves these queues watches the descriptors; on PCI it is a thread of the device.
    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        Vec::new()
    }

    /// Whether the driver waits until the chains of this queue are given back. If not, the queue's interrupts are
    /// coalesced. Defaults to true.
    fn is_awaited(&self, _queue: u16) -> bool {
        true
    }

    /// Handles one request: [completes](Request::complete) it, [defers](Request::defer) it to complete it later, or
    /// leaves it [waiting](Request::wait) for its queue's [source](Self::sources). A driver cannot make more requests
    /// available than the queue has descriptors, which limits how many are pending; a device with a lower limit leaves
    /// further requests waiting.
    ///
    /// # Errors
    ///
    /// If the request cannot be handled. The queue then stops.
    ///
    /// # Panics
    ///
    /// If the process unwinds, a panic stops the queue as an error does: the device continues after a reset.
    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError>;
}

/// A request while a handler has it. All of its buffers are in guest memory.
#[must_use = "a request that is neither completed nor deferred is lost to the driver"]
pub struct Request<'r> {
    pub(super) slices: &'r SliceList<'r>,
    pub(super) head: Head,
    pub(super) live: &'r Live,
    pub(super) ring: &'r Arc<LiveRing>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("chain", &self.live.chain)
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

/// What a handler has done with a request.
#[derive(Debug)]
#[must_use = "the queue has to give the request back"]
pub struct Handled(pub(super) Outcome);

#[derive(Debug)]
pub(super) enum Outcome {
    /// The request goes back, with this number of bytes written.
    Complete(Head, u32),
    Deferred,
    /// The request is handled again when the queue is served again.
    Waits(Head),
}

impl Request<'_> {
    /// The index of the request's queue.
    pub fn queue(&self) -> u16 {
        self.ring.index()
    }

    /// The part that the device reads.
    #[inline]
    pub fn readable(&self) -> Readable<'_> {
        self.slices.readable()
    }

    /// The part that the device writes.
    #[inline]
    pub fn writable(&self) -> Writable<'_> {
        self.slices.writable()
    }

    /// Completes the request, with this number of bytes written from the start of the writable part.
    #[inline]
    pub fn complete(self, written: usize) -> Handled {
        Handled(Outcome::Complete(self.head, used_len(written)))
    }

    /// Leaves the request waiting for the host: it is handled again, before any later one, when the
    /// [source](super::Handler::sources) of its queue becomes readable.
    pub fn wait(self) -> Handled {
        Handled(Outcome::Waits(self.head))
    }

    /// Takes the request, to complete it later.
    pub fn defer(self) -> (Pending, Handled) {
        self.ring.expect_late();
        let pending = Pending {
            writable: self.live.chain.writable().into(),
            taken: self.live.taken(self.head),
            ring: Arc::clone(self.ring),
        };
        (pending, Handled(Outcome::Deferred))
    }
}

/// A request that any thread completes later. If it is dropped, the device keeps it until the driver resets the device.
/// If `VIRTIO_F_IN_ORDER` was negotiated, the device also keeps all later requests.
#[must_use = "a request that is not completed is lost to the driver"]
pub struct Pending {
    writable: Box<[Buffer]>,
    taken: Taken,
    ring: Arc<LiveRing>,
}

impl Pending {
    /// Completes the request. `answer` writes what the device writes, and returns the number of bytes, from the first
    /// one on. `answer` is called here, or by the thread that is serving the queue. No other thread has the queue
    /// during the call, so it must not wait for anything. It is not called if the driver has reset the device or the
    /// queue. The driver is interrupted if it wants an interrupt.
    pub fn complete(self, answer: impl FnOnce(Writable<'_>) -> usize + Send + 'static) {
        let writable = self.writable;
        self.ring.complete(Late {
            taken: self.taken,
            answer: Box::new(move |memory| {
                let mut slices = SliceList::new(memory);
                slices.look_up(&[], &writable)?;
                Ok(answer(slices.writable()))
            }),
        });
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;
