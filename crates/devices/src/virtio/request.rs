//! A request: a chain that the driver has made available, while the device has it.
//!
//! A handler completes a request at once, or takes it as a [`Pending`] one, which any thread completes later, in any order.
//! If the driver resets the device meanwhile, nothing of the request reaches guest memory any more.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::driver::{HandlerError, Refusal};
use super::live_ring::{Late, Live, LiveRing, Taken, used_len};
use super::slices::{Readable, SliceList, Writable};
use vmbell_virtqueue::{Buffer, Head};

/// The work of a device on the chains that its driver makes available.
pub trait Handler: Send + Sync {
    /// The device ID (virtio 1.3, 5).
    const DEVICE_ID: u32;
    /// The device's name, for messages.
    const NAME: &'static str = "virtio";

    /// The features that only this type of device has (bits 0 to 23): none.
    fn features(&self) -> u64 {
        0
    }

    /// The driver has accepted these features, and its requests follow. None is under way; what is still pending from before a
    /// reset has no effect any more.
    fn accepted(&self, _features: u64) {}

    /// The configuration that only this type of device has. Defaults to none.
    fn config(&self) -> &[u8] {
        &[]
    }

    /// The queues whose chains wait for the host, each with the descriptor that is readable when the host has something for
    /// them or room for what they have, or when [pending](Pending) requests are complete. Defaults to none. The thread that
    /// serves what waits for the host watches them, which on PCI is a thread of the device.
    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        Vec::new()
    }

    /// Whether the driver waits until the chains of this queue are given back. If not, its interrupts are
    /// coalesced. Defaults to true.
    fn is_awaited(&self, _queue: u16) -> bool {
        true
    }

    /// Handles one request: [completes](Request::complete) it, [defers](Request::defer) it, to complete it later, or leaves
    /// it [waiting](Request::wait) for its queue's [source](Self::sources). A driver cannot make more requests available than the
    /// queue has descriptors, which limits how many are pending; a device with a lower limit leaves further ones waiting.
    ///
    /// # Errors
    ///
    /// The queue stops then.
    ///
    /// # Panics
    ///
    /// A panic stops the queue as an error does, if the process unwinds: the device needs a reset, and continues after it.
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
    /// It goes back, with this number of bytes written.
    Complete(Head, u32),
    Deferred,
    /// It is handled again when the queue is served again.
    Waits(Head),
}

impl Request<'_> {
    /// The index of the request's queue.
    pub fn queue(&self) -> u16 {
        self.ring.index()
    }

    /// What the device reads.
    #[inline]
    pub fn readable(&self) -> Readable<'_> {
        self.slices.readable()
    }

    /// What the device writes.
    #[inline]
    pub fn writable(&self) -> Writable<'_> {
        self.slices.writable()
    }

    /// Completes the request, with this number of bytes written, from the first one on.
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

/// A request that is complete later, on any thread. One that is dropped stays with the device until the driver resets it,
/// and with `VIRTIO_F_IN_ORDER` so do those after it.
#[must_use = "a request that is not completed is lost to the driver"]
pub struct Pending {
    writable: Box<[Buffer]>,
    taken: Taken,
    ring: Arc<LiveRing>,
}

impl Pending {
    /// Completes the request: `answer` writes what the device writes, and returns how many bytes that is, from the first one on.
    /// It is called here, or by the thread that serves the queue at the moment. No other thread has the queue meanwhile, so it
    /// must not wait for anything. It is not called if the driver has reset the device or the queue. The driver is
    /// interrupted, if it wants that.
    pub fn complete(self, answer: impl FnOnce(Writable<'_>) -> usize + Send + 'static) {
        self.ring.complete(Late {
            taken: self.taken,
            writable: self.writable,
            answer: Box::new(answer),
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

/// A handler without its type. The loop over the chains of a ring is compiled once for each type, so that the type's code is
/// inlined there.
pub(super) trait AnyHandler: Send + Sync {
    fn accepted(&self, features: u64);

    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)>;

    fn is_awaited(&self, queue: u16) -> bool;

    /// Serves chains until none is available, the budget is used up, the driver resets the device, or the device waits for
    /// the host; returns whether it does.
    fn drain(
        &self,
        ring: &Arc<LiveRing>,
        live: &mut Live,
        budget: &mut u16,
    ) -> Result<bool, Refusal>;
}

impl<H: Handler> AnyHandler for H {
    fn accepted(&self, features: u64) {
        Handler::accepted(self, features);
    }

    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        Handler::sources(self)
    }

    fn is_awaited(&self, queue: u16) -> bool {
        Handler::is_awaited(self, queue)
    }

    fn drain(
        &self,
        ring: &Arc<LiveRing>,
        live: &mut Live,
        budget: &mut u16,
    ) -> Result<bool, Refusal> {
        let index = ring.index();
        // Made for the first chain: a polled queue has none most of the time.
        let mut slices = None;
        let failed = |source| Refusal::Handler {
            queue: index,
            source,
        };
        let broken = |source| Refusal::Broken {
            queue: index,
            source,
        };
        while *budget > 0 && !ring.leaves() {
            let Some(head) = live.next().map_err(broken)? else {
                break;
            };
            *budget -= 1;
            let slices = slices.get_or_insert_with(|| SliceList::new(ring.memory()));
            let looked_up = slices.look_up(live.chain.readable(), live.chain.writable());
            looked_up.map_err(failed)?;
            let handled = self.handle(Request {
                slices,
                head,
                live,
                ring,
            });
            match handled.map_err(failed)?.0 {
                Outcome::Complete(head, written) => {
                    ring.give_back(live, live.taken(head), written)?;
                }
                Outcome::Deferred => {}
                Outcome::Waits(head) => {
                    live.waiting = Some(head);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;
