//! The device's interrupts (virtio 1.3, 4.1.4.5 and 4.1.5.1.2): each queue, and the configuration, has a vector of
//! MSI-X. While MSI-X is off, the interrupt status shows the reason of an interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use super::messages::Messages;
use crate::virtio::driver::Interrupts;
use vmbell::eventfd::EventFd;

/// There is no vector (`VIRTIO_MSI_NO_VECTOR`).
pub(super) const NO_VECTOR: u16 = 0xffff;

/// Bits of the interrupt status.
const QUEUE: u8 = 1 << 0;
const CONFIGURATION: u8 = 1 << 1;

/// The interrupts of a device.
#[derive(Debug)]
pub(super) struct PciInterrupts {
    pub(super) messages: Messages,
    vectors: u16,
    config_vector: AtomicU16,
    queue_vectors: Vec<AtomicU16>,
    status: AtomicU8,
}

impl PciInterrupts {
    /// Creates interrupts for `queues` queues, in the state after a reset.
    pub(super) fn new(messages: Messages, vectors: u16, queues: u16) -> Self {
        Self {
            messages,
            vectors,
            config_vector: AtomicU16::new(NO_VECTOR),
            queue_vectors: (0..queues).map(|_| AtomicU16::new(NO_VECTOR)).collect(),
            status: AtomicU8::new(0),
        }
    }

    /// The vector of configuration changes.
    pub(super) fn config_vector(&self) -> u16 {
        self.config_vector.load(Ordering::Relaxed)
    }

    /// Sets the vector of configuration changes. A vector that does not exist becomes "no vector", which the driver
    /// sees when it reads the register.
    pub(super) fn set_config_vector(&self, vector: u16) {
        let vector = self.checked(vector);
        self.config_vector.store(vector, Ordering::Relaxed);
    }

    /// The vector of a queue.
    pub(super) fn queue_vector(&self, queue: u16) -> u16 {
        let vector = self.queue_vectors.get(usize::from(queue));
        vector.map_or(NO_VECTOR, |vector| vector.load(Ordering::Relaxed))
    }

    /// Sets the vector of a queue. A vector that does not exist becomes "no vector".
    pub(super) fn set_queue_vector(&self, queue: u16, vector: u16) {
        if let Some(place) = self.queue_vectors.get(usize::from(queue)) {
            place.store(self.checked(vector), Ordering::Relaxed);
        }
    }

    const fn checked(&self, vector: u16) -> u16 {
        if vector < self.vectors {
            vector
        } else {
            NO_VECTOR
        }
    }

    /// Reads and clears the interrupt status.
    pub(super) fn take_status(&self) -> u8 {
        self.status.swap(0, Ordering::AcqRel)
    }

    fn raise(&self, reason: u8, vector: u16) {
        if !self.messages.signal(vector) {
            self.status.fetch_or(reason, Ordering::AcqRel);
        }
    }
}

impl Interrupts for PciInterrupts {
    fn used_buffer(&self, queue: u16) {
        self.raise(QUEUE, self.queue_vector(queue));
    }

    fn irqfd(&self, queue: u16) -> Option<Arc<EventFd>> {
        self.messages.share_eventfd(self.queue_vector(queue))
    }

    fn configuration(&self) {
        self.raise(CONFIGURATION, self.config_vector());
    }

    fn reset(&self) {
        self.config_vector.store(NO_VECTOR, Ordering::Relaxed);
        for vector in &self.queue_vectors {
            vector.store(NO_VECTOR, Ordering::Relaxed);
        }
        self.status.store(0, Ordering::Relaxed);
        self.messages.forget();
    }
}
