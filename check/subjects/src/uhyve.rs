//! The transmit loop of uhyve 0.10.0 (`src/virtio/net.rs`, `send_available_packets`): the same calls to virtio-queue
//! 0.18.0 in the same order, because uhyve's own modules are private.
//!
//! The loop ignores what `enable_notification` returns, and transmission never interrupts the driver.

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestMemoryMmap;

use crate::virtio_queue::new_queue;
use crate::{About, Bells, Device, DeviceSide, SPLIT, Site};

pub(crate) const DEVICE: Device = Device {
    about: About {
        name: "uhyve",
        version: "0.10.0",
        formats: SPLIT,
        starts: true,
        in_order: false,
    },
    new: Some(|site, mended| Box::new(Transmit::new(site, mended))),
    interrupts: false,
    memory: None,
};

struct Transmit {
    queue: Queue,
    memory: GuestMemoryMmap<()>,
    mended: bool,
}

impl Transmit {
    fn new(site: &Site, mended: bool) -> Transmit {
        Transmit {
            queue: new_queue(site),
            memory: site.guest_memory(),
            mended,
        }
    }

    /// Sends available packets. Returns what uhyve ignores: whether a chain is waiting.
    fn send_available_packets(&mut self) -> bool {
        let memory = &self.memory;
        let quiet = self.queue.disable_notification(memory);
        quiet.expect("the ring is in memory");
        while let Some(chain) = self.queue.iter(memory).expect("the queue is ready").next() {
            let used = self.queue.add_used(memory, chain.head_index(), 0);
            used.expect("the ring is in memory");
        }
        let more = self.queue.enable_notification(memory);
        more.expect("the ring is in memory")
    }
}

impl DeviceSide for Transmit {
    fn handle(&mut self, _: &dyn Bells) {
        // The fix: continue while a chain is waiting.
        while self.send_available_packets() && self.mended {}
    }
}
