//! The split ring (virtio 1.2, 2.7). The chain of a request stays in its descriptors.

use core::sync::atomic::Ordering::Relaxed;

use super::super::virtio::Part;
use super::ring::{Ring, RingQueue, RingWords, SEEN};

pub struct SplitRing {
    of: RingQueue,
    /// The index up to which the device was told of requests.
    told: u16,
}

impl SplitRing {
    pub fn new(of: RingQueue) -> Self {
        let words = of.queue.words();
        // Earlier requests, which tried the device, do not count.
        SEEN.store(words.used, Relaxed);
        Self {
            of,
            told: words.available,
        }
    }
}

impl Ring for SplitRing {
    fn offer(&mut self, request: u16, parts: &[Part<'_>]) {
        let first = request * self.of.chain;
        self.of.queue.chain(first, parts);
        self.of.queue.offer(first);
    }

    fn wants_notification(&mut self) -> Option<bool> {
        let words = self.of.queue.words();
        let (new, old) = (words.available, self.told);
        self.told = new;
        (new != old).then(|| match self.of.event_idx {
            // Virtio 1.2, 2.7.10.
            true => new.wrapping_sub(words.avail_event).wrapping_sub(1) < new.wrapping_sub(old),
            false => !words.no_notify,
        })
    }

    fn answer(&self) -> Option<u16> {
        let descriptor = self.of.queue.answer(SEEN.load(Relaxed))?;
        Some(u16::try_from(descriptor).map_or(u16::MAX, |first| first / self.of.chain))
    }

    fn take(&mut self) {
        SEEN.store(SEEN.load(Relaxed).wrapping_add(1), Relaxed);
    }

    fn want_interrupt(&self, wanted: bool) {
        let seen = SEEN.load(Relaxed);
        if self.of.event_idx {
            // The answer before the next one has been given, so its index asks for nothing.
            let index = if wanted { seen } else { seen.wrapping_sub(1) };
            self.of.queue.set_used_event(index);
        }
    }

    fn words(&self) -> RingWords {
        let words = self.of.queue.words();
        RingWords {
            available: words.available,
            used: words.used,
            avail_event: words.avail_event,
            used_event: words.used_event,
        }
    }
}
