//! The network device (virtio 1.3, 5.1) on a tap: what the driver sends goes to the host's interface, and what comes from
//! there to the driver. The threads that serve the two queues run it.
//!
//! It offers no offloads, so every packet is whole, with its checksum, and not longer than a frame.

mod mac;
mod tap;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vm_memory::GuestMemoryMmap;

pub use mac::{Mac, MacError};
pub use tap::{Tap, TapError};

use super::place::Place;
use super::queue::{Handler, HandlerError};
use crate::virtqueue::Chain;

const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
/// The value of the configuration's status while there is a link.
const LINK_UP: u16 = 1;

/// The receiving and the sending queue, of which a device without multiqueue has one each.
const RECEIVE: u16 = 0;
/// How many queues there are.
pub const NET_QUEUES: u16 = 2;

/// The header before each packet (`struct virtio_net_hdr`), and the place of its number of buffers.
const HEADER: usize = 12;
const NUM_BUFFERS: usize = 10;
/// The most bytes of a packet without offloads, with its header: an Ethernet frame with two VLAN tags.
const MOST: usize = HEADER + 1522;

/// A network interface of the guest, at the other end of a tap.
#[derive(Debug)]
pub struct Net {
    tap: Tap,
    config: [u8; 8],
    /// The next packet for the driver, with its header; empty if there is none.
    arrived: Mutex<Vec<u8>>,
}

impl Net {
    /// An interface with this address.
    pub fn new(tap: Tap, mac: Mac) -> Self {
        let mut config = [0; 8];
        config[..6].copy_from_slice(&mac.0);
        config[6..].copy_from_slice(&LINK_UP.to_le_bytes());
        Self {
            tap,
            config,
            arrived: Mutex::default(),
        }
    }

    fn arrived(&self) -> MutexGuard<'_, Vec<u8>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the packet to the driver. One that its buffer has no room for is lost, and the buffer comes back empty.
    fn receive(&self, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError> {
        let mut packet = self.arrived();
        let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let has_room = chain.writable_len() >= len;
        let written = if has_room {
            Place::new(chain.writable()).write(memory, &packet)
        } else {
            Ok(())
        };
        packet.clear();
        written.map(|()| if has_room { len } else { 0 })
    }

    /// Sends a packet, if it is one that a device without offloads sends. The host drops what its queue has no room for, as
    /// a network does.
    fn send(&self, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError> {
        let len = usize::try_from(chain.readable_len()).unwrap_or(usize::MAX);
        if (HEADER + 1..=MOST).contains(&len) {
            let mut packet = [0; MOST];
            Place::new(chain.readable()).read(memory, &mut packet[..len])?;
            // Nothing was negotiated that the header could ask for.
            packet[..HEADER].fill(0);
            self.tap.write(&packet[..len]);
        }
        Ok(0)
    }
}

impl Handler for Net {
    const DEVICE_ID: u32 = 1;
    const NAME: &'static str = "virtio-net";

    fn features(&self) -> u64 {
        MAC | STATUS
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
        if arrived.is_empty() {
            let mut packet = [0; MOST];
            // There is none, or the interface is down: the tap wakes us when that changes.
            let Ok(len) = self.tap.read(&mut packet) else {
                return false;
            };
            packet[NUM_BUFFERS..HEADER].copy_from_slice(&1_u16.to_le_bytes());
            arrived.extend(&packet[..len]);
        }
        !arrived.is_empty()
    }

    fn handle(
        &self,
        queue: u16,
        memory: &GuestMemoryMmap,
        chain: &Chain,
    ) -> Result<u32, HandlerError> {
        match queue {
            RECEIVE => self.receive(memory, chain),
            _ => self.send(memory, chain),
        }
    }
}

#[cfg(test)]
#[path = "test.rs"]
mod tests;
