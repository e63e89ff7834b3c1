//! Pairs of a driver and a device that take turns on one thread.

use std::sync::Arc;

use virtio_drivers::queue::VirtQueue;
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;
use vmbell_virtqueue::{
    Brand, Buffer, Chain, DeviceQueue, Driver, Features, PackedDevice, PackedDriver, PackedLayout,
    Side, SplitDevice, SplitDriver, SplitLayout,
};

use crate::peers::{self, BASE, BUFFERS, Guest, GuestHal, SIZE};

const LEN: usize = 64;
const QUEUE_SIZE: u16 = SIZE as u16;

pub trait Pair {
    /// Sends `batch` buffers through both sides.
    fn round(&mut self, batch: usize);
}

type Memory = Arc<GuestMemoryMmap>;

/// The two sides of this library.
pub struct Ours<D, V> {
    driver: D,
    device: V,
    chain: Chain,
    event_idx: bool,
}

impl<B: Brand> Ours<SplitDriver<u64, Memory, B>, SplitDevice<Memory>> {
    pub fn split(features: Features, brand: B) -> Self {
        let memory = peers::guest().memory;
        let layout = SplitLayout::contiguous(BASE, QUEUE_SIZE);
        let driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
        let device = SplitDevice::new(&memory, &layout, features).unwrap();
        Self::new(driver, device, features)
    }
}

impl<B: Brand> Ours<PackedDriver<u64, Memory, B>, PackedDevice<Memory>> {
    pub fn packed(features: Features, brand: B) -> Self {
        let memory = peers::guest().memory;
        let layout = PackedLayout::contiguous(BASE, QUEUE_SIZE);
        let driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
        let device = PackedDevice::new(&memory, &layout, features).unwrap();
        Self::new(driver, device, features)
    }
}

impl<S: Side, B: Brand, V: DeviceQueue> Ours<Driver<u64, S, B>, V> {
    fn new(mut driver: Driver<u64, S, B>, mut device: V, features: Features) -> Self {
        if !features.event_idx {
            driver.disable_cb();
            device.disable_notification();
        }
        Self {
            driver,
            device,
            chain: Chain::with_capacity(SIZE),
            event_idx: features.event_idx,
        }
    }
}

impl<S: Side, B: Brand, V: DeviceQueue> Pair for Ours<Driver<u64, S, B>, V> {
    #[inline(never)]
    fn round(&mut self, batch: usize) {
        for data in 0..batch as u64 {
            let buffer = Buffer::new(BUFFERS + data * LEN as u64, LEN as u32);
            self.driver.add(&[buffer], &[], data).unwrap();
        }
        if self.event_idx {
            std::hint::black_box(self.driver.kick_prepare());
        }
        while let Some(head) = self.device.pop(&mut self.chain).unwrap() {
            std::hint::black_box(self.chain.readable());
            self.device.add_used(head, 0).unwrap();
        }
        if self.event_idx {
            std::hint::black_box(self.device.needs_notification());
            std::hint::black_box(self.device.enable_notification());
        }
        for _ in 0..batch {
            std::hint::black_box(self.driver.get_used().unwrap().unwrap());
        }
    }
}

/// The two sides of the crates virtio-drivers and virtio-queue.
pub struct Peers {
    guest: Guest,
    driver: VirtQueue<GuestHal, SIZE>,
    device: Queue,
    tokens: Vec<u16>,
    event_idx: bool,
}

impl Peers {
    pub fn new(event_idx: bool) -> Self {
        let guest = peers::guest();
        let (mut driver, addresses) = peers::peer_driver(event_idx, false);
        let mut device = peers::peer_device(&addresses, event_idx);
        if !event_idx {
            driver.set_dev_notify(false);
            device.disable_notification(&*guest.memory).unwrap();
        }
        Self {
            guest,
            driver,
            device,
            tokens: Vec::with_capacity(SIZE),
            event_idx,
        }
    }

    pub fn buffer(&self, index: usize) -> &'static [u8] {
        self.guest.bytes(BUFFERS + (index * LEN) as u64, LEN)
    }
}

impl Pair for Peers {
    #[inline(never)]
    #[allow(unsafe_code)]
    fn round(&mut self, batch: usize) {
        let memory = &*self.guest.memory;
        self.tokens.clear();
        for i in 0..batch {
            // SAFETY: the buffer is guest memory that lives as long as the queue.
            let token = unsafe { self.driver.add(&[self.buffer(i)], &mut []) };
            self.tokens.push(token.unwrap());
        }
        if self.event_idx {
            std::hint::black_box(self.driver.should_notify());
        }
        while let Some(mut chain) = self.device.pop_descriptor_chain(memory) {
            std::hint::black_box(chain.next().unwrap());
            self.device.add_used(memory, chain.head_index(), 0).unwrap();
        }
        if self.event_idx {
            std::hint::black_box(self.device.needs_notification(memory).unwrap());
            std::hint::black_box(self.device.enable_notification(memory).unwrap());
        }
        for i in 0..batch {
            // SAFETY: the buffer that the token was given for.
            let used = unsafe {
                self.driver
                    .pop_used(self.tokens[i], &[self.buffer(i)], &mut [])
            };
            std::hint::black_box(used.unwrap());
        }
    }
}
