//! What the traffic needs of a ring, in either format. Requests have numbers, from 0 on.

use core::sync::atomic::AtomicU16;

use super::super::virtio::{Part, Queue, SIZE};

/// Where the driver takes the next answer; read from outside while the VM is paused. A split ring counts answers modulo
/// 65536, a packed ring has the position and, in bit 15, the wrap counter.
pub static SEEN: AtomicU16 = AtomicU16::new(0);

/// The words of a ring that the image prints: the driver's and the device's position, and their event indexes.
pub struct RingWords {
    pub available: u16,
    pub used: u16,
    pub avail_event: u16,
    pub used_event: u16,
}

/// A ring.
pub trait Ring {
    /// Makes a request available.
    fn offer(&mut self, request: u16, parts: &[Part<'_>]);

    /// Whether the device wants a notification of what was offered since this was last asked; `None` if nothing was.
    fn wants_notification(&mut self) -> Option<bool>;

    /// Returns the request of the next answer, if the device has given it.
    fn answer(&self) -> Option<u16>;

    /// Takes the next answer.
    fn take(&mut self);

    /// Tells the device whether to interrupt at the next answer.
    fn want_interrupt(&self, wanted: bool);

    /// The words.
    fn words(&self) -> RingWords;
}

/// A ring's memory, and what both formats know of it.
#[derive(Clone, Copy)]
pub struct RingQueue {
    pub queue: &'static Queue,
    /// Descriptors of each request.
    pub chain: u16,
    pub event_idx: bool,
}

impl RingQueue {
    /// The maximum number of requests.
    pub fn room(&self) -> u16 {
        SIZE / self.chain
    }
}
