//! krun-devices 0.1.0-1.19.7, the device side of a split ring of libkrun.

use krun_devices::virtio::Queue;
use vm_memory_17::{GuestAddress, GuestMemoryMmap};

use crate::{About, Bells, Chains, Device, DeviceSide, SPLIT, Site, handle_chains};

pub(crate) const DEVICE: Device = Device {
    about: About {
        name: "krun-devices",
        version: "0.1.0-1.19.7",
        formats: SPLIT,
        starts: false,
    },
    new: Some(|site, _| Box::new(Served::new(site))),
    interrupts: true,
    memory: None,
};

struct Served {
    queue: Queue,
    memory: GuestMemoryMmap<()>,
}

impl Served {
    fn new(site: &Site) -> Served {
        let mut queue = Queue::new(site.shape.size);
        queue.size = site.shape.size;
        queue.desc_table = GuestAddress(site.layout.0.into());
        queue.avail_ring = GuestAddress(site.layout.1.into());
        queue.used_ring = GuestAddress(site.layout.2.into());
        queue.set_event_idx(site.shape.event_idx);
        queue.ready = true;
        Served {
            queue,
            memory: site.guest_memory_17(),
        }
    }
}

impl DeviceSide for Served {
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl Chains for Served {
    fn quiet(&mut self) {
        let done = self.queue.disable_notification(&self.memory);
        done.expect("the ring is in memory");
    }
    fn serve(&mut self) -> bool {
        let Some(head) = self.queue.pop(&self.memory) else {
            return false;
        };
        let done = self.queue.add_used(&self.memory, head.index, 0);
        done.expect("the ring is in memory");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        let wanted = self.queue.needs_notification(&self.memory);
        wanted.expect("the ring is in memory")
    }
    fn listen(&mut self) -> bool {
        let more = self.queue.enable_notification(&self.memory);
        more.expect("the ring is in memory")
    }
}
