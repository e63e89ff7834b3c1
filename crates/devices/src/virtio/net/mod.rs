//! The network device (virtio 1.3, 5.1) on a tap: packets of the driver go to the host's interface, and packets from
//! there go to the driver, both directly from and to guest memory. Runs on the threads that serve the two queues.
//!
//! [`vhost`](super::vhost) has the same device, but its packets never pass through this process.
//!
//! ```no_run
//! use vmbell_devices::virtio::net::{Mac, Offloads, Tap};
//! use vmbell_devices::virtio::{Net, VirtioConfig, VirtioDevice};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mac: Mac = "02:00:00:00:00:01".parse()?;
//! let net = Net::new(Tap::open("tap0")?, mac, Offloads::default());
//! let device = VirtioDevice::new(net, 2, VirtioConfig::default());
//! # Ok(())
//! # }
//! ```

mod mac;
pub(super) mod offload;
mod tap;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

pub use mac::{Mac, MacError};
pub use offload::Offloads;
pub use tap::{Tap, TapError};

use self::tap::HEADER;
use super::driver::HandlerError;
use super::queue::Handler;
use super::request::{Handled, Readable, Request, Writable};

/// The value of the configuration's status while there is a link.
const LINK_UP: u16 = 1;

/// The receiving and the sending queue; a device without multiqueue has one of each.
const RECEIVE: u16 = 0;
/// How many queues there are.
pub const NET_QUEUES: u16 = 2;

/// The offset of the number of buffers in the header.
const NUM_BUFFERS: usize = 10;
/// The maximum number of bytes of a packet with its header: the maximum of IP after an Ethernet header with two VLAN
/// tags.
const MOST: usize = HEADER + 22 + 65_535;

/// The configuration of an interface with this address.
pub(super) fn config(mac: Mac) -> [u8; 8] {
    let mut config = [0; 8];
    config[..6].copy_from_slice(&mac.0);
    config[6..].copy_from_slice(&LINK_UP.to_le_bytes());
    config
}

/// A network interface of the guest, connected to a tap.
#[derive(Debug)]
pub struct Net {
    tap: Tap,
    offloads: Offloads,
    config: [u8; 8],
    /// Whether the driver's headers are passed on to the tap.
    asks: AtomicBool,
}

impl Net {
    /// Creates an interface with this address.
    pub fn new(tap: Tap, mac: Mac, offloads: Offloads) -> Self {
        Self {
            tap,
            offloads,
            config: config(mac),
            asks: AtomicBool::new(false),
        }
    }

    /// Gives the next packet to the driver, and returns its length; `None` if there is no packet. If the driver's
    /// buffer is too small, the packet is lost, and the buffer comes back empty.
    fn receive(&self, mut to: Writable<'_>) -> Option<usize> {
        // If there is no packet, or the interface is down, the tap wakes this thread when that changes.
        let len = self.tap.read(to).ok().filter(|len| *len > 0)?;
        if len > to.len() {
            return Some(0);
        }
        to.skip(NUM_BUFFERS);
        to.write(&1_u16.to_le_bytes());
        Some(len)
    }

    /// Sends a packet, unless it is longer than any packet can be. The host drops packets that its queue has no room
    /// for, as a network does.
    fn send(&self, mut from: Readable<'_>) {
        if (HEADER + 1..=MOST).contains(&from.len()) {
            // The kernel checks what the header asks for.
            let header: &[u8] = if self.asks.load(Ordering::Relaxed) {
                &[]
            } else {
                from.skip(HEADER);
                &[0; HEADER]
            };
            self.tap.write(header, from);
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
        // A tap that refuses sends packets without offloads, which every driver takes.
        let _ = self.tap.accept(features);
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        vec![(RECEIVE, self.tap.as_fd())]
    }

    /// The driver does not wait for its sent buffers.
    fn is_awaited(&self, queue: u16) -> bool {
        queue == RECEIVE
    }

    /// Sending never waits. A buffer of the driver waits until there is a packet for it.
    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if request.queue() == RECEIVE {
            return Ok(match self.receive(request.writable()) {
                Some(len) => request.complete(len),
                None => request.wait(),
            });
        }
        self.send(request.readable());
        Ok(request.complete(0))
    }
}

#[cfg(test)]
#[path = "net_test.rs"]
mod tests;
