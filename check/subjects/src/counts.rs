//! 16-bit counters: whether a side still answers correctly after many buffers, if no one asked it about them or the
//! other side wanted no signals for them.
//!
//! Both sides are called in turn, so the answer is the same each time.

use virtio_queue::QueueT;
use vm_memory::GuestMemoryMmap;
use vmbell_check::Shape;
use vmbell_virtqueue::{Chain, DeviceQueue, Features, PackedDevice, PackedLayout};

use crate::poll::site;
use crate::virtio_queue::new_queue;
use crate::{Site, driver};

/// Returns whether virtio-driver on a packed ring wants to notify a device that polled for this number of requests, of
/// two descriptors each, and then enabled notifications. The device then sleeps, so the driver has to notify it.
///
/// # Panics
///
/// If a side violates the specification.
pub fn virtio_driver_kicks_after(requests: u32) -> bool {
    let site = site(Shape::packed(8, true));
    let new = driver("virtio-driver").new.expect("it is not a reference");
    let mut side = new(&site, false);
    let layout = PackedLayout {
        size: site.shape.size,
        descriptors: site.layout.0.into(),
        driver_event: site.layout.1.into(),
        device_event: site.layout.2.into(),
    };
    let features = Features::default().with_event_idx(true);
    let device = PackedDevice::new(&site, &layout, features);
    let mut device = device.expect("the ring is in memory");
    let mut chain = Chain::with_capacity(8);
    device.disable_notification();
    for _ in 0..requests {
        side.add();
        assert!(!side.wants_kick(), "the device wants no notification");
        let head = device.pop(&mut chain).expect("the driver keeps the rules");
        let given_back = device.add_used(head.expect("a chain is waiting"), 0);
        given_back.expect("the chain is this queue's");
        assert!(side.take(), "a buffer is waiting");
    }
    assert!(!device.enable_notification(), "no chain is waiting");
    side.add();
    side.wants_kick()
}

/// Returns whether virtio-queue wants to interrupt a driver that waits for the first of this number of buffers, all of
/// which the queue has given back before it asks.
///
/// # Panics
///
/// If the queue refuses a buffer.
pub fn virtio_queue_interrupts_after(buffers: u32) -> bool {
    let site: Site = site(Shape::split(2, true));
    let memory: GuestMemoryMmap<()> = site.guest_memory();
    let mut queue = new_queue(&site);
    for _ in 0..buffers {
        let given_back = queue.add_used(&memory, 0, 0);
        given_back.expect("the ring is in memory");
    }
    let wanted = queue.needs_notification(&memory);
    wanted.expect("the ring is in memory")
}
