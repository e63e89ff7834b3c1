//! A queue of the device while the driver has it set up, and the work on it.
//!
//! A driver can make chains available as fast as they are served, so a service has a budget, after which
//! its thread is free to do something else: a vCPU's to see a kick, a listener's to see that it is to
//! stop. Notifications stay off then, and whoever served comes again.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vm_memory::{GuestAddress, GuestMemoryError, GuestMemoryMmap};

use super::Interrupt;
use super::refusal::{Refusal, Trouble};
use super::transport::QUEUE_SIZE_MAX;
use crate::bus::Work;
use crate::virtqueue::{Chain, DeviceQueue, SplitDevice};

/// Chains of one service at most: the largest ring full, so that what a driver offers at once is served
/// at once, and more only if it offers while it is served. Linux's vhost-net gives its thread back after
/// as many (`VHOST_NET_PKT_WEIGHT`).
pub(super) const BUDGET: u16 = QUEUE_SIZE_MAX;

/// A chain named memory that the guest does not have.
#[derive(Debug, thiserror::Error)]
#[error("a buffer at {address:#x} is not in guest memory", address = address.0)]
pub struct HandlerError {
    /// Where.
    pub address: GuestAddress,
    /// Why not.
    pub source: GuestMemoryError,
}

/// What a device does with the buffers that its driver sends.
pub trait Handler: Send + Sync {
    /// What the driver knows the device by (virtio 1.3, 5).
    const DEVICE_ID: u32;

    /// Works on one chain and says how many bytes it has written.
    ///
    /// # Errors
    ///
    /// If a buffer is not in memory; the queue stops then.
    fn handle(&self, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError>;
}

/// What there is of a queue between DRIVER_OK and a reset.
struct Live {
    device: SplitDevice<Arc<GuestMemoryMmap>>,
    chain: Chain,
}

/// What a service has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "more is not notified: whoever served comes again"]
pub struct Served {
    /// How many chains were given back.
    pub chains: u64,
    /// Whether more may wait, for which the driver does not notify.
    pub more: bool,
}

/// A queue, and how to serve it from any thread.
pub struct Queue<D> {
    index: u16,
    memory: Arc<GuestMemoryMmap>,
    handler: Arc<D>,
    interrupt: Arc<Interrupt>,
    /// Whether somebody polls, so that the driver need not notify.
    polled: bool,
    live: Mutex<Option<Live>>,
    /// Calls of [`serve`](Self::serve) since the one began that serves now. The others do not wait for
    /// it: a driver could make that long.
    calls: AtomicU64,
    /// Whoever serves is to leave soon: the driver resets the device.
    leave: AtomicBool,
    /// Chains that were given back, over all resets.
    served: AtomicU64,
    trouble: Arc<Trouble>,
}

impl<D> fmt::Debug for Queue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("index", &self.index)
            .field("polled", &self.polled)
            .finish_non_exhaustive()
    }
}

impl<D: Handler> Queue<D> {
    pub(super) fn new(
        index: u16,
        memory: Arc<GuestMemoryMmap>,
        handler: Arc<D>,
        interrupt: Arc<Interrupt>,
        polled: bool,
        trouble: Arc<Trouble>,
    ) -> Self {
        Self {
            index,
            memory,
            handler,
            interrupt,
            polled,
            live: Mutex::new(None),
            calls: AtomicU64::new(0),
            leave: AtomicBool::new(false),
            served: AtomicU64::new(0),
            trouble,
        }
    }

    /// Its index, which the driver notifies it by.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// How many chains were given back so far, by whoever served.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue is live from here on.
    pub(super) fn start(&self, mut device: SplitDevice<Arc<GuestMemoryMmap>>) {
        if self.polled {
            device.disable_notification();
        }
        let chain = Chain::with_capacity(usize::from(device.size()));
        *self.lock() = Some(Live { device, chain });
    }

    /// When it returns, nobody looks at the ring any more.
    pub(super) fn stop(&self) {
        self.leave.store(true, Ordering::Relaxed);
        *self.lock() = None;
        self.leave.store(false, Ordering::Relaxed);
    }

    /// Works on the chains that are there, if the queue is live, up to a budget.
    ///
    /// Whoever calls this for every notification, and again as long as there is [more](Served::more),
    /// misses no chain. While another thread serves, that one is made to come again instead. A polled
    /// queue never says that there is more, because its poller comes again anyway.
    pub fn serve(&self) -> Served {
        if self.calls.fetch_add(1, Ordering::AcqRel) > 0 {
            return Served::default();
        }
        let served = self.service();
        let called = self.calls.swap(0, Ordering::AcqRel) > 1;
        Served {
            more: !self.polled && (served.more || called),
            ..served
        }
    }

    fn service(&self) -> Served {
        if self.leave.load(Ordering::Relaxed) {
            return Served::default();
        }
        let mut guard = self.lock();
        let Some(live) = guard.as_mut() else {
            return Served::default();
        };
        let before = self.served();
        let more = self.rounds(live).unwrap_or_else(|refusal| {
            *guard = None;
            self.trouble.note(refusal);
            self.interrupt.configuration();
            false
        });
        // Nobody else counts while the lock is held.
        let chains = self.served() - before;
        Served { chains, more }
    }

    /// Drains the ring until it stays empty; whether the budget ends before that.
    fn rounds(&self, live: &mut Live) -> Result<bool, Refusal> {
        let mut budget = BUDGET;
        while budget > 0 {
            if !self.polled {
                live.device.disable_notification();
            }
            self.drain(live, &mut budget)?;
            if live.device.needs_notification() {
                self.interrupt.used_buffer();
            }
            let leave = self.leave.load(Ordering::Relaxed);
            if leave || budget > 0 && (self.polled || !live.device.enable_notification()) {
                return Ok(false);
            }
            // A driver can also take a chain back between two looks: rounds count as well.
            budget = budget.saturating_sub(1);
        }
        Ok(true)
    }

    /// Serves chains until there is none, the budget is used up or the driver resets the device.
    fn drain(&self, live: &mut Live, budget: &mut u16) -> Result<(), Refusal> {
        let queue = self.index;
        let broken = |source| Refusal::Broken { queue, source };
        while *budget > 0
            && !self.leave.load(Ordering::Relaxed)
            && let Some(head) = live.device.pop(&mut live.chain).map_err(broken)?
        {
            *budget -= 1;
            let written = self
                .handler
                .handle(&self.memory, &live.chain)
                .map_err(|source| Refusal::Handler { queue, source })?;
            // Before the driver can see it: who waits for the chain finds it counted.
            self.served.fetch_add(1, Ordering::Relaxed);
            live.device
                .add_used(head, written)
                .map_err(|source| Refusal::Used { queue, source })?;
        }
        Ok(())
    }
}

impl<D: Handler> Work for Queue<D> {
    fn go_on(&self) -> bool {
        self.serve().more
    }
}
