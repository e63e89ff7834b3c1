//! The ring of a queue from its start to its stop: how the thread that serves the queue and those that complete requests
//! later give chains back to the driver.
//!
//! A thread that serves has the ring to itself. One that completes a request meanwhile leaves it in a list, which the
//! serving thread looks at before it interrupts the driver, and once more after it has let go of the ring.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use vm_memory::GuestMemoryMmap;

use super::coalescing::Coalescing;
use super::driver_side::DriverSide;
use super::refusal::Refusal;
use super::ring::Ring;
use vmbell_virtqueue::{Chain, DeviceQueue, Head, QueueError};

/// How many times a thread looks again at a ring that lacks a chain of which it was told: for about 100 us, which is long for a
/// store on its way from one CPU to another.
const LOOKS: u16 = 1000;

/// A chain that was taken from a ring.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) head: Head,
    /// How many times the queue was stopped before.
    pub(super) stops: u64,
    /// Counts the chains that were taken since the start of the queue, from 1.
    pub(super) number: u64,
}

/// The state of a queue between DRIVER_OK and a reset.
pub(super) struct Live {
    pub(super) ring: Ring,
    pub(super) chain: Chain,
    /// The chain that was taken last, if it waits for the host.
    pub(super) waiting: Option<Head>,
    stops: u64,
    /// How many chains were taken, which is the number of the last one.
    taken: u64,
    /// How many times in succession the ring had no chain where the driver said that there is one.
    empty: u16,
    pub(super) coalescing: Coalescing,
    /// What `VIRTIO_F_IN_ORDER` needs, if the driver has accepted that.
    order: Option<Order>,
}

/// Requests that were completed before an earlier one.
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
    /// Takes the chain that waits, or else the next one, if there is one.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Head>, QueueError> {
        if let Some(head) = self.waiting.take() {
            return Ok(Some(head));
        }
        let head = self.ring.pop(&mut self.chain)?;
        self.taken += u64::from(head.is_some());
        Ok(head)
    }

    /// Called before the thread that serves goes to sleep: whether it looks at the ring again, because the driver has
    /// `said` that a chain is there and none was taken since `next`.
    pub(super) fn looks_again(&mut self, next: u16, said: u16) -> bool {
        let found_nothing = self.waiting.is_none() && self.ring.next_avail() == next;
        self.empty = match found_nothing && self.ring.is_behind(said) {
            true => self.empty.saturating_add(1),
            false => 0,
        };
        (1..=LOOKS).contains(&self.empty)
    }

    /// The chain that was taken last, and with this head.
    #[inline]
    pub(super) fn taken(&self, head: Head) -> Taken {
        Taken {
            head,
            stops: self.stops,
            number: self.taken,
        }
    }
}

/// The ring of a queue, if the queue is started.
pub(super) struct LiveRing {
    index: u16,
    driver: DriverSide,
    live: Mutex<Option<Live>>,
    /// How many times the queue was stopped. A thread that accesses buffers of a pending request holds it for reading.
    stops: RwLock<u64>,
    /// Requests that were completed while another thread had the ring, and the bytes written to each.
    late: Mutex<Vec<(Taken, u32)>>,
    /// Whether a request was ever deferred.
    defers: AtomicBool,
    /// Chains that were given back, over all resets.
    served: AtomicU64,
}

impl LiveRing {
    pub(super) fn new(index: u16, driver: DriverSide) -> Self {
        Self {
            index,
            driver,
            live: Mutex::new(None),
            stops: RwLock::new(0),
            late: Mutex::default(),
            defers: AtomicBool::new(false),
            served: AtomicU64::new(0),
        }
    }

    pub(super) const fn index(&self) -> u16 {
        self.index
    }

    pub(super) fn memory(&self) -> &GuestMemoryMmap {
        &self.driver.memory
    }

    /// How many chains were given back so far, by any thread.
    #[inline]
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> MutexGuard<'_, Vec<(Taken, u32)>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, ring: Ring, is_in_order: bool) {
        let stops = *self.stops.read().unwrap_or_else(PoisonError::into_inner);
        let live = Live {
            chain: Chain::with_capacity(usize::from(ring.size())),
            ring,
            waiting: None,
            stops,
            taken: 0,
            empty: 0,
            coalescing: Coalescing::default(),
            order: is_in_order.then(Order::new),
        };
        *self.lock() = Some(live);
    }

    /// Stops the queue: after the return, no thread accesses the ring, or a buffer of a request.
    pub(super) fn stop(&self) {
        *self.stops.write().unwrap_or_else(PoisonError::into_inner) += 1;
        *self.lock() = None;
        self.late().clear();
    }

    /// Stops the queue because of what the driver or the device did wrong.
    pub(super) fn fail(&self, live: &mut Option<Live>, refusal: Refusal) {
        *live = None;
        self.driver.trouble.note(refusal);
        self.driver.interrupts.configuration();
    }

    /// Keeps the queue from being stopped, if the count of stops is still `stops`. Does not wait: it returns `None` if
    /// another thread is stopping the queue.
    pub(super) fn running(&self, stops: u64) -> Option<RwLockReadGuard<'_, u64>> {
        let now = match self.stops.try_read() {
            Ok(now) => now,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (*now == stops).then_some(now)
    }

    /// Called before a request is deferred, by the thread that has the ring.
    pub(super) fn expect_late(&self) {
        self.defers.store(true, Ordering::Relaxed);
    }

    /// Gives a chain back, or keeps it until those before it have gone back.
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

    /// Gives back the chains that were only waiting for the one that went back last.
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
        if self.defers.load(Ordering::Relaxed) {
            self.give_back_listed(live)
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn give_back_listed(&self, live: &mut Live) -> Result<(), Refusal> {
        let late = std::mem::take(&mut *self.late());
        for (taken, written) in late {
            // Others are of a ring that was stopped.
            if taken.stops == live.stops {
                self.give_back(live, taken, written)?;
            }
        }
        Ok(())
    }

    /// Completes a request that was deferred.
    pub(super) fn complete_late(&self, taken: Taken, written: u32) {
        self.late().push((taken, written));
        self.flush();
    }

    /// Gives back what was completed while another thread had the ring. A thread that has had it calls this: one that has
    /// left a request in the list since then may have found the ring taken.
    #[inline]
    pub(super) fn flush(&self) {
        if self.defers.load(Ordering::Relaxed) {
            self.flush_list();
        }
    }

    #[inline(never)]
    fn flush_list(&self) {
        while !self.late().is_empty() {
            let mut guard = match self.live.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let Some(live) = guard.as_mut() else {
                // They are of a ring that was stopped: one that starts now has no pending requests.
                self.late().clear();
                return;
            };
            match self.give_back_late(live) {
                Ok(()) => {
                    self.interrupt(live);
                }
                Err(refusal) => self.fail(&mut guard, refusal),
            }
        }
    }

    /// Interrupts the driver for chains whose interrupt has waited, if it still wants that.
    #[inline]
    pub(super) fn end_wait(&self, live: &mut Live) {
        if live.coalescing.is_waiting() {
            let needed = self.interrupt(live);
            live.coalescing.end(needed);
        }
    }

    /// Interrupts the driver, if it wants that, and returns whether it does.
    #[inline]
    pub(super) fn interrupt(&self, live: &mut Live) -> bool {
        let wanted = live.ring.needs_notification();
        if wanted {
            self.driver.interrupts.used_buffer(self.index);
        }
        wanted
    }
}

impl fmt::Debug for LiveRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRing")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
