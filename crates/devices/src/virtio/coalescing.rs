//! Interrupt coalescing for a queue whose driver does not wait for its chains, such as a network interface's sending queue.
//!
//! The interrupt for chains that were given back waits until the next service, at most [`LATEST`]. Most drivers have taken them by
//! then: Linux's network driver does that whenever it sends or receives a packet (`drivers/net/virtio_net.c`,
//! `virtnet_poll_cleantx`). Its interrupt, and the end of the guest's sleep that it causes, are then not needed.
//!
//! A driver that does need the interrupt gets the next ones at once, after each such case for twice as many services. The thread that
//! serves the queue runs this. virtio 1.3 sets no limit of time for a used buffer notification.

use std::time::Duration;

/// How long an interrupt waits. Linux's TCP lets a flow have 1 ms of packets that were not given back (`net/ipv4/tcp_output.c`,
/// `sk_pacing_shift`), so this does not slow it down.
pub(super) const LATEST: Duration = Duration::from_micros(200);
/// For how many chains an interrupt waits: the driver may need the descriptors.
const MOST: u64 = 32;
/// For how many services there is no waiting, at most.
const MOST_AT_ONCE: u16 = 1023;

/// What the driver was seen to do.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// Chains whose interrupt waits.
    waiting: u64,
    /// How many services still interrupt at once: none while an interrupt waits.
    at_once: u16,
    /// How many did so after the last interrupt that was needed.
    penalty: u16,
}

impl Coalescing {
    /// Whether an interrupt waits.
    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Decides for chains that were just given back, if there are any: true if an interrupt waits. Otherwise the caller interrupts
    /// now, for those that waited before, too.
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

    /// The wait is over, and the driver `needed` the interrupt or not.
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

#[cfg(test)]
#[path = "coalescing_test.rs"]
mod tests;
