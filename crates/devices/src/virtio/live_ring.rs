//! The ring of a queue from its start to its stop: how the thread that serves the queue, and the threads that complete
//! requests later, give chains back to the driver. The [`Combiner`] decides which thread has the ring.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use vm_memory::GuestMemoryMmap;
use vmbell::sync::atomic::{AtomicU64, Ordering};

use super::combiner::Combiner;
use super::driver::{DriverSide, HandlerError, Refusal};
use super::ring::Ring;
use vmbell_virtqueue::{
    Chain, DeviceControl, DeviceQueue, DeviceState, Head, QueueError, RestoreError,
};

/// How many times a thread looks again at a ring that lacks a chain that the driver announced: for about 100 us, which
/// is long for a store on its way from one CPU to another.
const LOOKS: u16 = 1000;

/// The maximum wait of an interrupt. Linux's TCP lets a flow have 1 ms of packets that were not given back yet
/// (`net/ipv4/tcp_output.c`, `sk_pacing_shift`), so the wait does not slow the flow down.
pub(super) const LATEST: Duration = Duration::from_micros(200);
/// The maximum number of chains for which an interrupt waits: the driver may need their descriptors.
const MOST: u64 = 32;
/// The maximum number of interrupts without delay that follow an interrupt that was needed.
const MOST_AT_ONCE: u16 = 1023;

/// A chain that was taken from a ring.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) head: Head,
    /// Which start of the queue the chain is from, counted from 1.
    pub(super) start: u64,
    /// The chain's number since that start, from 1.
    pub(super) number: u64,
}

/// Writes the answer to a deferred request to guest memory, and returns the answer's length.
pub(super) type Answer = dyn FnOnce(&GuestMemoryMmap) -> Result<usize, HandlerError> + Send;

/// A deferred request that is complete.
pub(super) struct Late {
    pub(super) taken: Taken,
    pub(super) answer: Box<Answer>,
}

/// A chain is still in flight.
#[derive(Debug)]
pub(super) struct InFlight;

/// Converts a length for a used element. No request has 4 GiB.
pub(super) fn used_len(written: usize) -> u32 {
    u32::try_from(written).unwrap_or(u32::MAX)
}

/// The state of a queue between DRIVER_OK and a reset.
pub(super) struct Live {
    pub(super) ring: Ring,
    pub(super) chain: Chain,
    /// The chain that was taken last, if it waits for the host.
    pub(super) waiting: Option<Head>,
    start: u64,
    /// How many chains were taken, which is also the number of the last one.
    taken: u64,
    /// How many times in a row the ring had no chain although the driver had announced one.
    empty: u16,
    pub(super) coalescing: Coalescing,
    /// The state for `VIRTIO_F_IN_ORDER`, if the driver has accepted it.
    order: Option<Order>,
}

/// Requests that were completed before an earlier request.
struct Order {
    /// The number of the chain that goes back next.
    next: u64,
    early: BTreeMap<u64, (Head, u32)>,
}

impl Order {
    fn new() -> Self {
        Self {
            next: 1,
            early: BTreeMap::new(),
        }
    }
}

impl Live {
    /// Takes the waiting chain, or otherwise the next one, if there is one.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Head>, QueueError> {
        if let Some(head) = self.waiting.take() {
            return Ok(Some(head));
        }
        let head = self.ring.pop(&mut self.chain)?;
        self.taken += u64::from(head.is_some());
        Ok(head)
    }

    /// Returns whether the thread that serves looks at the ring again before it sleeps, because the driver has `said`
    /// that a chain is there and no chain was taken since `next`.
    pub(super) fn looks_again(&mut self, next: u16, said: u16) -> bool {
        let found_nothing = self.waiting.is_none() && self.ring.next_avail() == next;
        self.empty = match found_nothing && self.ring.is_behind(said) {
            true => self.empty.saturating_add(1),
            false => 0,
        };
        (1..=LOOKS).contains(&self.empty)
    }

    /// The chain that was taken last, which has this head.
    #[inline]
    pub(super) fn taken(&self, head: Head) -> Taken {
        Taken {
            head,
            start: self.start,
            number: self.taken,
        }
    }
}

/// Interrupt coalescing for a queue whose driver does not wait for its chains, such as a network interface's send queue.
///
/// The interrupt for chains that were given back waits until the queue is served again, at most [`LATEST`]. Most
/// drivers have taken the chains by then: Linux's network driver does so whenever it sends or receives a packet
/// (`drivers/net/virtio_net.c`, `virtnet_poll_cleantx`). The interrupt, and the wake-up of the guest that it causes,
/// are then not needed. virtio 1.3 sets no time limit for a used buffer notification.
///
/// If a driver did need the interrupt, the next interrupts are sent without delay. Their number doubles with each such
/// case.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// The number of chains whose interrupt waits.
    waiting: u64,
    /// How many more interrupts are sent without delay; 0 while an interrupt waits.
    at_once: u16,
    /// The next value of `at_once`: doubled after an interrupt that was needed, halved after one that was not.
    penalty: u16,
}

impl Coalescing {
    /// Whether an interrupt waits.
    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Decides about the interrupt for chains that were just given back, if any. Returns true if an interrupt waits;
    /// otherwise the caller interrupts now, also for the chains that waited before.
    pub(super) fn waits(&mut self, chains: u64) -> bool {
        if chains == 0 {
            return self.is_waiting();
        }
        if self.at_once > 0 {
            self.at_once -= 1;
            return false;
        }
        self.waiting += chains;
        if self.waiting > MOST {
            self.waiting = 0;
        }
        self.is_waiting()
    }

    /// Ends the wait. `needed` says whether the driver needed the interrupt.
    pub(super) fn end(&mut self, needed: bool) {
        self.waiting = 0;
        if needed {
            self.penalty = (2 * self.penalty + 1).min(MOST_AT_ONCE);
            self.at_once = self.penalty;
        } else {
            self.penalty /= 2;
        }
    }
}

/// The ring of a queue, if the queue is started.
pub(super) struct LiveRing {
    index: u16,
    driver: DriverSide,
    combiner: Combiner<Live, Late>,
    /// Chains that were given back, over all resets.
    served: AtomicU64,
}

impl LiveRing {
    pub(super) fn new(index: u16, driver: DriverSide) -> Self {
        Self {
            index,
            driver,
            combiner: Combiner::new(),
            served: AtomicU64::new(0),
        }
    }

    pub(super) const fn index(&self) -> u16 {
        self.index
    }

    pub(super) fn memory(&self) -> &GuestMemoryMmap {
        &self.driver.memory
    }

    /// How many chains were given back, by any thread.
    #[inline]
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    pub(super) fn start(&self, ring: Ring, is_in_order: bool) {
        self.combiner.start(|start| Live {
            chain: Chain::with_capacity(usize::from(ring.size())),
            ring,
            waiting: None,
            start,
            taken: 0,
            empty: 0,
            coalescing: Coalescing::default(),
            order: is_in_order.then(Order::new),
        });
    }

    /// Pauses the queue until [`resume`](Self::resume), and returns the ring's state; `None` if the queue is not
    /// started. A chain that waits for the host is taken again later. Fails if a chain was not given back.
    pub(super) fn pause(&self) -> Result<Option<DeviceState>, InFlight> {
        let look = |live: &mut Live| {
            let mut state = live.ring.save([]).map_err(|_| InFlight)?;
            if let Some(head) = &live.waiting {
                state.put_back(head);
            }
            if state.next_avail == state.next_used {
                Ok(state)
            } else {
                Err(InFlight)
            }
        };
        self.combiner.pause(look, |live, late| {
            self.give_back_and_interrupt(live, late);
        })
    }

    /// Ends a pause.
    pub(super) fn resume(&self) {
        self.combiner.resume();
    }

    /// Sets a saved state, if the queue was started during this pause.
    pub(super) fn restore(&self, state: &DeviceState) -> Result<(), RestoreError> {
        let restored = self.combiner.with_paused(|live| live.ring.restore(state));
        restored.unwrap_or(Ok(Vec::new())).map(drop)
    }

    /// Stops the queue: after the return, no thread accesses the ring, or a buffer of a request.
    pub(super) fn stop(&self) {
        self.combiner.stop();
    }

    /// Whether the thread that serves has to return soon: the queue is being stopped.
    #[inline]
    pub(super) fn leaves(&self) -> bool {
        self.combiner.leaves()
    }

    /// Calls `serve` with the ring, and then gives back what was completed meanwhile; see [`Combiner::serve`].
    #[inline]
    pub(super) fn serve<T: Default>(
        &self,
        serve: impl FnOnce(&mut Option<Live>) -> T,
    ) -> Option<(T, bool)> {
        self.combiner
            .serve(serve, |live, late| self.give_back_and_interrupt(live, late))
    }

    /// Does `work` with the ring, if it is started. The queue stops if the driver or the device did something wrong, or
    /// if the device panics. A panic must neither leave the ring taken nor end the thread, because otherwise a reset by
    /// the driver could not start the queue again.
    pub(super) fn work<T: Default>(
        &self,
        live: &mut Option<Live>,
        work: impl FnOnce(&mut Live) -> Result<T, Refusal>,
    ) -> T {
        let Some(ring) = live else {
            return T::default();
        };
        catch(|| work(ring)).flatten().unwrap_or_else(|refusal| {
            *live = None;
            self.driver.trouble.note(refusal);
            self.driver.interrupts.configuration();
            T::default()
        })
    }

    /// Called by the thread that has the ring, before it defers a request.
    pub(super) fn expect_late(&self) {
        self.combiner.expect_late();
    }

    /// Completes a request that was deferred.
    pub(super) fn complete(&self, late: Late) {
        let give_back = |live: &mut _, late| self.give_back_and_interrupt(live, late);
        self.combiner.complete(late, give_back);
    }

    fn give_back_and_interrupt(&self, live: &mut Option<Live>, late: Vec<Late>) {
        self.work(live, |live| {
            self.give_back_each(live, late)?;
            self.interrupt(live);
            Ok(())
        });
    }

    /// Gives a chain back, or keeps it until the chains before it have gone back.
    #[inline]
    pub(super) fn give_back(
        &self,
        live: &mut Live,
        taken: Taken,
        written: u32,
    ) -> Result<(), Refusal> {
        if let Some(order) = &mut live.order {
            if order.next != taken.number {
                order.early.insert(taken.number, (taken.head, written));
                return Ok(());
            }
            order.next += 1;
        }
        self.add_used(&mut live.ring, taken.head, written)?;
        if live.order.is_some() {
            self.give_back_early(live)
        } else {
            Ok(())
        }
    }

    /// Gives back the chains that only waited for the chain that went back last.
    #[inline(never)]
    fn give_back_early(&self, live: &mut Live) -> Result<(), Refusal> {
        while let Some(order) = &mut live.order
            && let Some((head, written)) = order.early.remove(&order.next)
        {
            order.next += 1;
            self.add_used(&mut live.ring, head, written)?;
        }
        Ok(())
    }

    #[inline]
    fn add_used(&self, ring: &mut Ring, head: Head, written: u32) -> Result<(), Refusal> {
        // Counted before the driver can see the chain, so that a thread that waits for the chain finds it counted.
        self.served.fetch_add(1, Ordering::Relaxed);
        let queue = self.index;
        let used = ring.add_used(head, written);
        used.map_err(|source| Refusal::Used { queue, source })
    }

    /// Gives back what was completed while the caller had the ring.
    #[inline]
    pub(super) fn give_back_late(&self, live: &mut Live) -> Result<(), Refusal> {
        if self.combiner.may_be_late() {
            self.give_back_each(live, self.combiner.take_late())
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn give_back_each(&self, live: &mut Live, late: Vec<Late>) -> Result<(), Refusal> {
        let queue = self.index;
        for Late { taken, answer } in late {
            // Other requests belong to a ring that was stopped.
            if taken.start != live.start {
                continue;
            }
            let written = answer(self.memory());
            let written = written.map_err(|source| Refusal::Handler { queue, source })?;
            self.give_back(live, taken, used_len(written))?;
        }
        Ok(())
    }

    /// Interrupts the driver for chains whose interrupt has waited, if the driver still wants the interrupt.
    #[inline]
    pub(super) fn end_wait(&self, live: &mut Live) {
        if live.coalescing.is_waiting() {
            let needed = self.interrupt(live);
            live.coalescing.end(needed);
        }
    }

    /// Interrupts the driver if it wants an interrupt, and returns whether it did.
    #[inline]
    pub(super) fn interrupt(&self, live: &mut Live) -> bool {
        let wanted = live.ring.needs_notification();
        if wanted {
            self.driver.interrupts.used_buffer(self.index);
        }
        wanted
    }
}

/// Calls code of a device, and turns a panic into a refusal, so that the thread can serve the device after a reset.
pub(super) fn catch<R>(code: impl FnOnce() -> R) -> Result<R, Refusal> {
    // State that the code left half done is not used before a reset, because the queue stops.
    let caught = panic::catch_unwind(AssertUnwindSafe(code));
    caught.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Refusal::Panicked {
            message: text.unwrap_or("without a text").to_owned(),
        }
    })
}

impl fmt::Debug for LiveRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRing")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "live_ring_test.rs"]
mod tests;
