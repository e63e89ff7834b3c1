//! The packed ring (virtio 1.2, 2.8). A position has the wrap counter in bit 15, as in the event suppression structures.

use core::sync::atomic::Ordering::Relaxed;

use super::super::virtio::{PackedDescriptor, Part, SIZE};
use super::ring::{Ring, RingQueue, RingWords, SEEN};

const WRAP: u16 = 1 << 15;
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Values of an event suppression structure's flags.
const ENABLE: u16 = 0;
const DISABLE: u16 = 1;
const AT_POSITION: u16 = 2;

pub struct PackedRing {
    of: RingQueue,
    /// Where the driver makes the next request available.
    next: u16,
    /// The descriptors that the device was not told of.
    untold: u16,
}

/// The position after this number of descriptors, which is at most a lap.
fn step(position: u16, count: u16) -> u16 {
    match (position & !WRAP) + count {
        at if at >= SIZE => (at - SIZE) | (position & WRAP ^ WRAP),
        at => at | position & WRAP,
    }
}

impl PackedRing {
    pub fn new(of: RingQueue) -> Self {
        SEEN.store(WRAP, Relaxed);
        let ring = Self {
            of,
            next: WRAP,
            untold: 0,
        };
        ring.want_interrupt(false);
        ring
    }

    fn request(&self, position: u16) -> Option<u16> {
        let PackedDescriptor { id, flags } = self.of.queue.packed(position & !WRAP);
        let expected = if position & WRAP == 0 {
            0
        } else {
            AVAILABLE | USED
        };
        (flags & (AVAILABLE | USED) == expected).then_some(id)
    }
}

impl Ring for PackedRing {
    fn offer(&mut self, request: u16, parts: &[Part<'_>]) {
        // The device may look at any time, so the first descriptor's flags are written last.
        for (part, at) in parts.iter().zip(0..self.of.chain).rev() {
            let position = step(self.next, at);
            let own = if position & WRAP == 0 {
                USED
            } else {
                AVAILABLE
            };
            let has_next = usize::from(at) + 1 < parts.len();
            let index = position & !WRAP;
            self.of
                .queue
                .offer_packed(index, request, part, has_next, own);
        }
        self.next = step(self.next, self.of.chain);
        self.untold += self.of.chain;
    }

    fn wants_notification(&mut self) -> Option<bool> {
        let [event, flags] = self.of.queue.device_event();
        let (new, count) = (self.next & !WRAP, core::mem::take(&mut self.untold));
        (count != 0).then(|| match flags {
            ENABLE => true,
            AT_POSITION => {
                // An event of the lap before is below this lap's start.
                let is_of_lap = event & WRAP == self.next & WRAP;
                let event = (event & !WRAP).wrapping_sub(if is_of_lap { 0 } else { SIZE });
                new.wrapping_sub(event).wrapping_sub(1) < count
            }
            _ => false,
        })
    }

    fn answer(&self) -> Option<u16> {
        self.request(SEEN.load(Relaxed))
    }

    fn take(&mut self) {
        SEEN.store(step(SEEN.load(Relaxed), self.of.chain), Relaxed);
    }

    fn want_interrupt(&self, wanted: bool) {
        let event = match (wanted, self.of.event_idx) {
            (true, true) => [SEEN.load(Relaxed), AT_POSITION],
            (true, false) => [0, ENABLE],
            (false, _) => [0, DISABLE],
        };
        self.of.queue.set_driver_event(event);
    }

    fn words(&self) -> RingWords {
        let mut used = SEEN.load(Relaxed);
        while used != self.next && self.request(used).is_some() {
            used = step(used, self.of.chain);
        }
        RingWords {
            available: self.next,
            used,
            avail_event: self.of.queue.device_event()[0],
            used_event: self.of.queue.driver_event()[0],
        }
    }
}
