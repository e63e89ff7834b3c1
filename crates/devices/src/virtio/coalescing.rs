//! Interrupt coalescing for a queue whose driver does not wait for its chains, such as a network interface's send
//! queue.
//!
//! The interrupt for chains that were given back waits until the queue is served again, at most [`LATEST`]. Most
//! drivers have taken the chains by then: Linux's network driver does so whenever it sends or receives a packet
//! (`drivers/net/virtio_net.c`, `virtnet_poll_cleantx`). The interrupt, and the wake-up of the guest that it causes,
//! are then not needed.
//!
//! If a driver did need the interrupt, the next interrupts are sent at once. Their number doubles with each such case.
//! Runs on the thread that serves the queue. virtio 1.3 sets no time limit for a used buffer notification.

use std::time::Duration;

/// The maximum wait of an interrupt. Linux's TCP lets a flow have 1 ms of packets that were not given back yet
/// (`net/ipv4/tcp_output.c`, `sk_pacing_shift`), so the wait does not slow the flow down.
pub(super) const LATEST: Duration = Duration::from_micros(200);
/// The most chains for which an interrupt waits: the driver may need their descriptors.
const MOST: u64 = 32;
/// The maximum number of times that the queue interrupts at once after an interrupt that was needed.
const MOST_AT_ONCE: u16 = 1023;

/// The state of a queue's interrupt coalescing.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// The number of chains whose interrupt waits.
    waiting: u64,
    /// How many more times the queue interrupts at once; 0 while an interrupt waits.
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

#[cfg(test)]
#[path = "coalescing_test.rs"]
mod tests;
