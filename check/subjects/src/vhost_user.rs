//! vhost-user-backend 0.24.0 (rust-vmm): the vring of a vhost-user device, with a read-write lock or a mutex.

use vhost_user_backend::{VringMutex, VringRwLock, VringT};
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

use crate::{About, Bells, Chains, Device, DeviceSide, SPLIT, Site, handle_chains};

type Memory = GuestMemoryAtomic<GuestMemoryMmap<()>>;

const ABOUT: About = About {
    name: "vhost-user-backend",
    version: "0.24.0",
    formats: SPLIT,
    starts: true,
    in_order: false,
};

pub(crate) const RW_LOCK: Device = Device {
    about: ABOUT,
    new: Some(|site, _| Box::new(Served::<VringRwLock<Memory>>::new(site))),
    interrupts: true,
    memory: None,
};

pub(crate) const MUTEX: Device = Device {
    about: About {
        name: "vhost-user-backend, mutex",
        ..ABOUT
    },
    new: Some(|site, _| Box::new(Served::<VringMutex<Memory>>::new(site))),
    interrupts: true,
    memory: None,
};

struct Served<V> {
    vring: V,
    memory: Memory,
}

impl<V: VringT<Memory>> Served<V> {
    fn new(site: &Site) -> Self {
        let memory = GuestMemoryAtomic::new(site.guest_memory());
        let vring = V::new(memory.clone(), site.shape.size).expect("the size is a power of two");
        vring.set_queue_size(site.shape.size);
        let (descriptors, avail, used) = site.layout;
        let set = vring.set_queue_info(descriptors.into(), avail.into(), used.into());
        set.expect("the ring is aligned");
        vring.set_queue_event_idx(site.shape.event_idx);
        vring.set_queue_next_avail(site.shape.start);
        vring.set_queue_next_used(site.shape.start);
        vring.set_queue_ready(true);
        vring.set_enabled(true);
        Served { vring, memory }
    }
}

impl<V: VringT<Memory>> DeviceSide for Served<V> {
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl<V: VringT<Memory>> Chains for Served<V> {
    fn quiet(&mut self) {
        let done = self.vring.disable_notification();
        done.expect("the ring is in memory");
    }
    fn serve(&mut self) -> bool {
        let chain = self
            .vring
            .get_mut()
            .get_queue_mut()
            .pop_descriptor_chain(self.memory.memory());
        let Some(chain) = chain else { return false };
        let done = self.vring.add_used(chain.head_index(), 0);
        done.expect("the ring is in memory");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        let wanted = self.vring.needs_notification();
        wanted.expect("the ring is in memory")
    }
    fn listen(&mut self) -> bool {
        let more = self.vring.enable_notification();
        more.expect("the ring is in memory")
    }
}
