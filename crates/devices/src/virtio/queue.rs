//! A queue of the device, the handler of its chains, and their service.
//!
//! A driver can make chains available as fast as they are served, so a service has a budget. After the budget, the
//! thread can do something else: a vCPU's thread can see a kick, and a listener's thread that it must stop.
//! Notifications stay disabled meanwhile, so the thread must serve again.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::driver::{DriverSide, HandlerError, Refusal};
use super::live_ring::{InFlight, LATEST, Live, LiveRing};
use super::request::{Handled, Outcome, Request, SliceList};
use super::ring::{LastNotification, QUEUE_SIZE_MAX, Ring};
use crate::listener::{Listener, Rest};
use vmbell::bus::Work;
use vmbell_virtqueue::{DeviceQueue, DeviceState, RestoreError};

/// The maximum number of chains of one service: a full ring of the largest size, so that a second service is needed
/// only if the driver makes chains available during the first. Linux's vhost-net yields its thread after the same
/// number (`VHOST_NET_PKT_WEIGHT`).
pub(super) const BUDGET: u16 = QUEUE_SIZE_MAX;

/// How many turns a thread waits for the next chain of a driver that polls: about 200 ns on an EPYC. That is a few
/// round trips of a cache line to the driver's CPU, and a small part of a wake-up.
const TURNS: u32 = 8;

/// How often, and how many times, a pause looks whether deferred requests are complete: a flush of a disk may take
/// seconds.
const PAUSE_LOOK: Duration = Duration::from_millis(1);
const PAUSE_LOOKS: u32 = 10_000;

/// The result of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "if `more` is set, the driver does not notify: serve again"]
pub struct Served {
    /// How many chains were given back, by any thread.
    pub chains: u64,
    /// Whether there may be more chains, for which the driver does not notify: the caller must serve again.
    pub more: bool,
    /// Whether the interrupt for some of the chains waits for the next service, if the driver still needs it then.
    pub(super) interrupt_waits: bool,
}

/// What a thread does after a service.
pub(super) enum Then<'w> {
    /// Waits for a notification. `said` is the position that the driver has announced; `wait` is called when a driver
    /// that polls may make the next chain available. With `nap`, an interrupt may wait, and the thread then sleeps at
    /// most [`LATEST`].
    Sleep {
        said: Option<u16>,
        wait: &'w dyn Fn(),
        nap: bool,
    },
    /// Serves again.
    Poll,
}

impl Then<'_> {
    const fn said(&self) -> Option<u16> {
        match self {
            Self::Sleep { said, .. } => *said,
            Self::Poll => None,
        }
    }

    const fn is_nap(&self) -> bool {
        matches!(self, Self::Sleep { nap: true, .. })
    }
}

/// A queue of the device, which any thread may serve.
pub struct Queue {
    ring: Arc<LiveRing>,
    handler: Arc<dyn AnyHandler>,
    notification: LastNotification,
    /// Whether a thread polls the queue, so that the driver need not notify.
    polled: bool,
    /// Whether the driver waits for its chains.
    is_awaited: bool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("ring", &self.ring)
            .field("polled", &self.polled)
            .finish_non_exhaustive()
    }
}

impl Queue {
    pub(super) fn new(
        index: u16,
        driver: &DriverSide,
        handler: Arc<dyn AnyHandler>,
        polled: bool,
    ) -> Self {
        Self {
            ring: Arc::new(LiveRing::new(index, driver.clone())),
            is_awaited: handler.is_awaited(index),
            handler,
            notification: LastNotification::default(),
            polled,
        }
    }

    /// The queue's index, which the driver writes to notify.
    pub fn index(&self) -> u16 {
        self.ring.index()
    }

    /// What the driver's notifications say.
    pub(super) const fn notification(&self) -> &LastNotification {
        &self.notification
    }

    /// How many chains were given back, by any thread.
    pub fn served(&self) -> u64 {
        self.ring.served()
    }

    /// Starts the queue: from here on it can be served.
    pub(super) fn start(&self, mut ring: Ring, is_in_order: bool) {
        if self.polled {
            ring.disable_notification();
        }
        self.ring.start(ring, is_in_order);
    }

    /// Stops the queue: after the return, no thread accesses the ring or a request's buffers. The handler keeps pending
    /// requests, and completing them has no effect.
    pub(super) fn stop(&self) {
        self.ring.stop();
    }

    /// Starts a thread that serves the queue when its eventfd is signalled.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn listen(self: &Arc<Self>) -> io::Result<Listener> {
        let queue = Arc::clone(self);
        // The work of a wake-up is in the queue, and the eventfd's count says nothing more.
        if self.is_awaited {
            Listener::start(|| {}, move || queue.serve_before_sleep().more)
        } else {
            Listener::start_resting(|| {}, move || queue.serve_before_nap())
        }
    }

    /// Pauses the queue until [`resume`](Self::resume), once all requests that were deferred are complete, and returns
    /// the ring's state; `None` if the queue is not started. A queue that starts during the pause is not served.
    pub(super) fn pause(&self) -> Result<Option<DeviceState>, InFlight> {
        for _ in 0..PAUSE_LOOKS {
            if let Ok(state) = self.ring.pause() {
                return Ok(state);
            }
            std::thread::sleep(PAUSE_LOOK);
        }
        self.ring.pause()
    }

    /// Ends a pause. The caller notifies the queue afterwards.
    pub(super) fn resume(&self) {
        self.ring.resume();
    }

    /// Sets a saved state, if the queue was started during this pause.
    pub(super) fn restore(&self, state: &DeviceState) -> Result<(), RestoreError> {
        self.ring.restore(state)
    }

    /// Serves the available chains up to a budget, if the queue is started.
    ///
    /// A thread that calls this for every notification, and again as long as there is [more](Served::more),
    /// misses no chain. If another thread is serving, this call makes that thread look for chains again. For a
    /// polled queue `more` is always false, because its poller calls again anyway.
    pub fn serve(&self) -> Served {
        self.serve_then(&Then::Sleep {
            said: None,
            wait: &|| {},
            nap: false,
        })
    }

    /// Like [`serve`](Self::serve), for a thread that sleeps afterwards until the driver notifies.
    ///
    /// If the driver wants no interrupt for what was served, it polls, and may make the next chain available at once.
    /// The thread waits a moment for that chain before it lets the driver notify, because a notification and a wake-up
    /// take far longer. A vCPU's thread does not wait, because the driver waits for that thread.
    pub fn serve_before_sleep(&self) -> Served {
        self.serve_and_wait(false)
    }

    /// Like [`serve_before_sleep`](Self::serve_before_sleep), for a thread that sleeps as the returned [`Rest`] says:
    /// an interrupt that [waits](super::live_ring::Coalescing) is sent in the next service, if it is needed then.
    pub(super) fn serve_before_nap(&self) -> Rest {
        let served = self.serve_and_wait(!self.is_awaited);
        match (served.more, served.interrupt_waits) {
            (true, _) => Rest::More,
            (false, true) => Rest::Nap(LATEST),
            (false, false) => Rest::Sleep,
        }
    }

    fn serve_and_wait(&self, nap: bool) -> Served {
        let said = self.notification.position(self.index());
        let wait = &|| (0..TURNS).for_each(|_| std::hint::spin_loop());
        self.serve_then(&Then::Sleep { said, wait, nap })
    }

    /// Like [`serve`](Self::serve), for a thread that soon calls it again: until then, the driver does not notify.
    pub fn serve_before_poll(&self) -> Served {
        self.serve_then(&Then::Poll)
    }

    // Compiled once: in several copies, its parts would not be inlined.
    #[inline(never)]
    pub(super) fn serve_then(&self, then: &Then<'_>) -> Served {
        let Some((served, called)) = self.ring.serve(|live| self.service(live, then)) else {
            return Served::default();
        };
        Served {
            more: !self.polled && (served.more || called),
            ..served
        }
    }

    #[inline]
    fn service(&self, live: &mut Option<Live>, then: &Then<'_>) -> Served {
        let before = self.served();
        let more = self.ring.work(live, |live| {
            let next = live.ring.next_avail();
            let more = self.rounds(live, then)?;
            Ok(more || then.said().is_some_and(|said| live.looks_again(next, said)))
        });
        Served {
            // No other thread gives chains back while this one has the ring.
            chains: self.served() - before,
            more,
            interrupt_waits: live
                .as_ref()
                .is_some_and(|live| live.coalescing.is_waiting()),
        }
    }

    /// Drains the ring until it stays empty or the device waits for the host; returns whether the budget ended first.
    fn rounds(&self, live: &mut Live, then: &Then<'_>) -> Result<bool, Refusal> {
        let mut budget = BUDGET;
        self.ring.end_wait(live);
        while budget > 0 {
            if !self.polled {
                live.ring.disable_notification();
            }
            let before = self.served();
            let waits = self.handler.drain(&self.ring, live, &mut budget)?;
            self.ring.give_back_late(live)?;
            let given_back = self.served() - before;
            let interrupt_waits = then.is_nap() && live.coalescing.waits(given_back);
            let polls = !interrupt_waits && !self.ring.interrupt(live);
            if polls
                && given_back > 0
                && let Then::Sleep { wait, .. } = then
            {
                wait();
            }
            let leave = self.ring.leaves();
            let is_polled = self.polled || matches!(then, Then::Poll);
            // A device that waits for the host needs no notification: it looks at the ring when the host wakes it.
            if leave || waits || budget > 0 && (is_polled || !live.ring.enable_notification()) {
                return Ok(false);
            }
            // Rounds without a chain count as well, because a driver can take a chain back between two looks.
            budget = budget.saturating_sub(1);
        }
        Ok(true)
    }
}

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
    /// the chains or room for their data, or when [pending](super::Pending) requests are complete. Defaults to none. The
    /// thread that serves these queues watches the descriptors; on PCI it is a thread of the device.
    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        Vec::new()
    }

    /// Whether the driver waits until the chains of this queue are given back. If not, the queue's interrupts are
    /// coalesced. Defaults to true.
    fn is_awaited(&self, _queue: u16) -> bool {
        true
    }

    /// Whether the device keeps nothing between two requests except in its file on the host, so that its registers and
    /// rings are all that a snapshot needs. Defaults to false: the device is not saved.
    fn is_stateless(&self) -> bool {
        false
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

/// A handler without its type. The loop over the chains of a ring is compiled once for each type, so that the type's
/// code is inlined into the loop.
pub(super) trait AnyHandler: Send + Sync {
    fn accepted(&self, features: u64);

    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)>;

    fn is_awaited(&self, queue: u16) -> bool;

    fn is_stateless(&self) -> bool;

    /// Serves chains until none is available, the budget is used up, the driver resets the device, or the device waits
    /// for the host; returns whether the device waits.
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

    fn is_stateless(&self) -> bool {
        Handler::is_stateless(self)
    }

    fn drain(
        &self,
        ring: &Arc<LiveRing>,
        live: &mut Live,
        budget: &mut u16,
    ) -> Result<bool, Refusal> {
        let index = ring.index();
        // Created for the first chain: a polled queue has no chain most of the time.
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

impl Work for Queue {
    fn go_on(&self) -> bool {
        self.serve().more
    }
}
