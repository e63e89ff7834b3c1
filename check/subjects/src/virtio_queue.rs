//! virtio-queue 0.18.0 (rust-vmm), the device side of a split ring: cloud-hypervisor, Dragonball and others use it.

use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::resume::Resumable;
use crate::{About, Bells, Chains, Device, DeviceSide, SPLIT, Site, handle_chains};

const ABOUT: About = About {
    name: "virtio-queue",
    version: "0.18.0",
    formats: SPLIT,
    starts: true,
    in_order: false,
};

pub(crate) const DEVICE: Device = Device {
    about: ABOUT,
    new: Some(|site, _| Box::new(Served::new(site, Restores::Never))),
    interrupts: true,
    memory: None,
};

pub(crate) const RESTORED: Device = Device {
    about: About {
        name: "virtio-queue, restored",
        ..ABOUT
    },
    new: Some(|site, mended| {
        let interrupts = mended;
        Box::new(Served::new(site, Restores::Once { interrupts }))
    }),
    interrupts: true,
    memory: None,
};

/// When the queue is saved and restored.
#[derive(Clone, Copy)]
enum Restores {
    Never,
    /// Once, before the device asks whether to interrupt the driver. With `interrupts`, it interrupts in any case.
    Once {
        interrupts: bool,
    },
}

struct Served {
    queue: Queue,
    memory: GuestMemoryMmap<()>,
    restores: Restores,
}

/// Makes a queue at the place and index of a ring.
pub(crate) fn new_queue(site: &Site) -> Queue {
    let mut queue = Queue::new(site.shape.size).expect("the size is a power of two");
    let (descriptors, avail, used) = site.layout;
    let address = |offset: u16| GuestAddress(offset.into());
    let set = queue
        .try_set_desc_table_address(address(descriptors))
        .and_then(|()| queue.try_set_avail_ring_address(address(avail)))
        .and_then(|()| queue.try_set_used_ring_address(address(used)));
    set.expect("the ring is aligned");
    queue.set_event_idx(site.shape.event_idx);
    queue.set_next_avail(site.shape.start);
    queue.set_next_used(site.shape.start);
    queue.set_ready(true);
    queue
}

impl Served {
    fn new(site: &Site, restores: Restores) -> Served {
        Served {
            queue: new_queue(site),
            memory: site.guest_memory(),
            restores,
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
        let Some(chain) = self.queue.pop_descriptor_chain(&self.memory) else {
            return false;
        };
        let done = self.queue.add_used(&self.memory, chain.head_index(), 0);
        done.expect("the ring is in memory");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        if let Restores::Once { interrupts } = self.restores
            && vmbell_check::choose(2) == 1
        {
            self.restores = Restores::Never;
            self.queue = Queue::try_from(self.queue.state()).expect("the state is the queue's own");
            if interrupts {
                return true;
            }
        }
        let wanted = self.queue.needs_notification(&self.memory);
        wanted.expect("the ring is in memory")
    }
    fn listen(&mut self) -> bool {
        let more = self.queue.enable_notification(&self.memory);
        more.expect("the ring is in memory")
    }
}

/// The queue, and the head of the chain that was taken: the device saves the head itself.
struct Saved(Served, Option<u16>);

/// A device side that can be saved.
pub(crate) fn new_resumable(site: &Site) -> Box<dyn Resumable> {
    Box::new(Saved(Served::new(site, Restores::Never), None))
}

impl Resumable for Saved {
    fn quiet(&mut self) {
        self.0.quiet();
    }
    fn take(&mut self) -> bool {
        let chain = self.0.queue.pop_descriptor_chain(&self.0.memory);
        self.1 = chain.map(|chain| chain.head_index());
        self.1.is_some()
    }
    fn give_back(&mut self) -> bool {
        let Some(head) = self.1.take() else {
            return false;
        };
        let done = self.0.queue.add_used(&self.0.memory, head, 0);
        done.expect("the ring is in memory");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.0.wants_interrupt()
    }
    fn listen(&mut self) -> bool {
        self.0.listen()
    }
    fn reload(&mut self) {
        let state = self.0.queue.state();
        self.0.queue = Queue::try_from(state).expect("the state is the queue's own");
    }
}
