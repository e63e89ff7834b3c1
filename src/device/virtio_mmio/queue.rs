//! A queue of the device while the driver has it set up, and the work on it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vm_memory::{GuestAddress, GuestMemoryError, GuestMemoryMmap};

use super::Interrupt;
use super::refusal::{Refusal, Trouble};
use crate::virtqueue::{Chain, DeviceQueue, SplitDevice};

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

/// A queue, and how to serve it from any thread.
pub struct Queue<D> {
    index: u16,
    memory: Arc<GuestMemoryMmap>,
    handler: Arc<D>,
    interrupt: Arc<Interrupt>,
    /// Whether somebody polls, so that the driver need not notify.
    polled: bool,
    live: Mutex<Option<Live>>,
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

    /// Works on all chains that are there, if the queue is live, and says how many that were.
    ///
    /// Unless the queue is polled, the driver's next notification is asked for at the end, so a
    /// caller that calls for every notification misses no chain.
    pub fn serve(&self) -> u64 {
        if self.leave.load(Ordering::Relaxed) {
            return 0;
        }
        let mut guard = self.lock();
        let Some(live) = guard.as_mut() else {
            return 0;
        };
        let before = self.served();
        if let Err(refusal) = self.rounds(live) {
            *guard = None;
            self.trouble.note(refusal);
            self.interrupt.configuration();
        }
        // Nobody else counts while the lock is held.
        self.served() - before
    }

    fn rounds(&self, live: &mut Live) -> Result<(), Refusal> {
        loop {
            if !self.polled {
                live.device.disable_notification();
            }
            self.drain(live)?;
            if live.device.needs_notification() {
                self.interrupt.used_buffer();
            }
            let leave = self.leave.load(Ordering::Relaxed);
            if self.polled || leave || !live.device.enable_notification() {
                return Ok(());
            }
        }
    }

    fn drain(&self, live: &mut Live) -> Result<(), Refusal> {
        let queue = self.index;
        let broken = |source| Refusal::Broken { queue, source };
        while !self.leave.load(Ordering::Relaxed)
            && let Some(head) = live.device.pop(&mut live.chain).map_err(broken)?
        {
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
