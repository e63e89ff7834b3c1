//! The network device (virtio 1.3, 5.1) on a tap: what the driver sends goes to the host's interface, and what comes from
//! there to the driver. The threads that serve the two queues run it.
//!
//! [`vhost`](super::vhost) has the same device, whose packets never come to this process.

mod mac;
pub(super) mod offload;
mod tap;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use mac::{Mac, MacError};
pub use offload::Offloads;
pub use tap::{Tap, TapError};

use super::queue::{Handler, HandlerError};
use super::request::{Handled, Request};
use super::slices::{Readable, Writable};

/// The value of the configuration's status while there is a link.
const LINK_UP: u16 = 1;

/// The receiving and the sending queue; a device without multiqueue has one of each.
const RECEIVE: u16 = 0;
/// How many queues there are.
pub const NET_QUEUES: u16 = 2;

/// The header before each packet (`struct virtio_net_hdr`), and the place of its number of buffers.
const HEADER: usize = 12;
const NUM_BUFFERS: usize = 10;
/// The most bytes of a packet, with its header: what IP allows after an Ethernet header with two VLAN tags.
const MOST: usize = HEADER + 22 + 65_535;

/// The configuration of an interface with this address.
pub(super) fn config(mac: Mac) -> [u8; 8] {
    let mut config = [0; 8];
    config[..6].copy_from_slice(&mac.0);
    config[6..].copy_from_slice(&LINK_UP.to_le_bytes());
    config
}

/// A network interface of the guest, at the other end of a tap.
#[derive(Debug)]
pub struct Net {
    tap: Tap,
    offloads: Offloads,
    config: [u8; 8],
    /// Whether headers of the driver are for the tap.
    asks: AtomicBool,
    /// The next packet for the driver, with its header; empty if there is no packet.
    arrived: Mutex<Arrived>,
    /// A packet of the driver's, while it is sent.
    sent: Mutex<Box<[u8]>>,
}

/// A packet in a place for the longest.
struct Arrived {
    bytes: Box<[u8]>,
    len: usize,
}

impl Net {
    /// An interface with this address.
    pub fn new(tap: Tap, mac: Mac, offloads: Offloads) -> Self {
        Self {
            tap,
            offloads,
            config: config(mac),
            asks: AtomicBool::new(false),
            arrived: Mutex::new(Arrived {
                bytes: vec![0; MOST].into(),
                len: 0,
            }),
            sent: Mutex::new(vec![0; MOST].into()),
        }
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the packet to the driver, and returns its length. One that its buffer has no room for is lost, and the buffer
    /// comes back empty.
    fn receive(&self, mut to: Writable<'_>) -> usize {
        let mut packet = self.arrived();
        let len = std::mem::take(&mut packet.len);
        if to.len() < len {
            return 0;
        }
        to.write(&packet.bytes[..len])
    }

    /// Sends a packet, unless it is longer than any. The host drops what its queue has no room for, as a network does.
    fn send(&self, mut from: Readable<'_>) {
        if (HEADER + 1..=MOST).contains(&from.len()) {
            let mut packet = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let len = from.read(&mut packet);
            // The kernel checks what the header asks for.
            if !self.asks.load(Ordering::Relaxed) {
                packet[..HEADER].fill(0);
            }
            self.tap.write(&packet[..len]);
        }
    }
}

impl Handler for Net {
    const DEVICE_ID: u32 = 1;
    const NAME: &'static str = "virtio-net";

    fn features(&self) -> u64 {
        offload::ALWAYS | self.offloads.with_single_buffers()
    }

    fn accepted(&self, features: u64) {
        self.asks.store(offload::asks(features), Ordering::Relaxed);
        // A tap without an offload sends packets that every driver takes.
        let _ = self.tap.accept(features);
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn source(&self) -> Option<(u16, BorrowedFd<'_>)> {
        Some((RECEIVE, self.tap.as_fd()))
    }

    /// Sending never waits. A buffer of the driver waits until there is a packet for it.
    fn is_ready(&self, queue: u16) -> bool {
        if queue != RECEIVE {
            return true;
        }
        let mut arrived = self.arrived();
        if arrived.len == 0 {
            // There is no packet, or the interface is down: the tap wakes us when that changes.
            let Ok(len) = self.tap.read(&mut arrived.bytes) else {
                return false;
            };
            arrived.bytes[NUM_BUFFERS..HEADER].copy_from_slice(&1_u16.to_le_bytes());
            arrived.len = len;
        }
        arrived.len > 0
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let written = match request.queue() {
            RECEIVE => self.receive(request.writable()),
            _ => {
                self.send(request.readable());
                0
            }
        };
        Ok(request.complete(written))
    }
}

impl fmt::Debug for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrived")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
