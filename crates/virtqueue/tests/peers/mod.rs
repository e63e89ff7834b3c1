//! The virtio-drivers and virtio-queue crates, over the same guest memory in this process.
//!
//! The driver crate allocates through a static trait, so each test or measurement runs on its own thread and finds its
//! memory in a thread-local variable.

#![allow(
    unsafe_code,
    dead_code,
    clippy::cast_possible_truncation,
    clippy::unwrap_used
)]

use std::{cell::RefCell, ptr::NonNull, sync::Arc};

use virtio_drivers::{
    BufferDirection, Hal, PAGE_SIZE, PhysAddr,
    queue::VirtQueue,
    transport::{DeviceStatus, DeviceType, InterruptStatus, Transport},
};
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Where guest memory begins; the driver crate takes zero for a failure.
pub const BASE: u64 = 0x10_0000;
/// The size of guest memory.
pub const BYTES: usize = 1 << 20;
/// Where buffers are: above the rings.
pub const BUFFERS: u64 = BASE + BYTES as u64 / 2;
/// Where copies of indirect tables are.
const BOUNCES: u64 = BASE + BYTES as u64 / 4;
/// Size of the queues.
pub const SIZE: usize = 256;

/// Guest memory of one queue.
#[derive(Clone)]
pub struct Guest {
    pub memory: Arc<GuestMemoryMmap>,
    host: usize,
    next: u64,
    bounces: u64,
}

thread_local! {
    static GUEST: RefCell<Option<Guest>> = const { RefCell::new(None) };
}

/// Makes guest memory, from which the driver crate also allocates on this thread from now on.
pub fn guest() -> Guest {
    let range = [(GuestAddress(BASE), BYTES)];
    let memory = Arc::new(GuestMemoryMmap::from_ranges(&range).unwrap());
    let guest = Guest {
        host: memory.get_host_address(GuestAddress(BASE)).unwrap() as usize,
        memory,
        next: BASE,
        bounces: 0,
    };
    adopt(guest.clone());
    guest
}

/// Lets the driver crate on this thread use the memory of another thread.
pub fn adopt(guest: Guest) {
    GUEST.with(|cell| *cell.borrow_mut() = Some(guest));
}

impl Guest {
    /// Copies what the device will read to a separate place, which is reused after a while.
    fn bounce(&mut self, buffer: NonNull<[u8]>) -> PhysAddr {
        const SLOT: u64 = 512;
        // SAFETY: the driver crate shares its own table, and no thread writes to it meanwhile.
        let from = unsafe { buffer.as_ref() };
        let addr = BOUNCES + self.bounces % 64 * SLOT;
        self.bounces += 1;
        self.bytes(addr, from.len()).copy_from_slice(from);
        addr
    }

    /// The host's view of guest memory.
    pub fn bytes(&self, addr: u64, len: usize) -> &'static mut [u8] {
        assert!(addr >= BASE && addr + len as u64 <= BASE + BYTES as u64);
        let first = self.host + (addr - BASE) as usize;
        // SAFETY: inside the mapping, which the test keeps until its end; the driver crate's own interface has slices
        // of shared memory.
        unsafe { std::slice::from_raw_parts_mut(first as *mut u8, len) }
    }
}

/// The driver crate's view of this thread's guest memory.
pub struct GuestHal;

// SAFETY: pages come from a mapping that outlives the queue, and each page is given out once.
unsafe impl Hal for GuestHal {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        GUEST.with_borrow_mut(|guest| {
            let guest = guest.as_mut().unwrap();
            let (addr, len) = (guest.next, pages * PAGE_SIZE);
            guest.next += len as u64;
            let bytes = guest.bytes(addr, len);
            (addr, NonNull::from(bytes).cast())
        })
    }

    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        0
    }

    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        unreachable!("there is no MMIO")
    }

    #[inline]
    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        let addr = buffer.cast::<u8>().as_ptr() as usize;
        let host = GUEST.with_borrow(|guest| guest.as_ref().unwrap().host);
        match addr.checked_sub(host) {
            Some(offset) if offset < BYTES => BASE + offset as u64,
            // Indirect tables are on the heap.
            _ => GUEST.with_borrow_mut(|guest| guest.as_mut().unwrap().bounce(buffer)),
        }
    }

    #[inline]
    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// A transport that only remembers the queue's addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub size: u32,
    pub descriptors: PhysAddr,
    pub avail: PhysAddr,
    pub used: PhysAddr,
}

impl Transport for Addresses {
    fn device_type(&self) -> DeviceType {
        DeviceType::Block
    }
    fn read_device_features(&mut self) -> u64 {
        0
    }
    fn write_driver_features(&mut self, _: u64) {}
    fn max_queue_size(&mut self, _: u16) -> u32 {
        1 << 15
    }
    fn notify(&mut self, _: u16) {}
    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::DRIVER_OK
    }
    fn set_status(&mut self, _: DeviceStatus) {}
    fn set_guest_page_size(&mut self, _: u32) {}
    fn requires_legacy_layout(&self) -> bool {
        false
    }
    fn queue_set(&mut self, _: u16, size: u32, desc: PhysAddr, avail: PhysAddr, used: PhysAddr) {
        *self = Self {
            size,
            descriptors: desc,
            avail,
            used,
        };
    }
    fn queue_unset(&mut self, _: u16) {}
    fn queue_used(&mut self, _: u16) -> bool {
        false
    }
    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }
    fn read_config_generation(&self) -> u32 {
        0
    }
    fn read_config_space<T: zerocopy::FromBytes + zerocopy::IntoBytes>(
        &self,
        _: usize,
    ) -> virtio_drivers::Result<T> {
        Err(virtio_drivers::Error::Unsupported)
    }
    fn write_config_space<T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        _: usize,
        _: T,
    ) -> virtio_drivers::Result<()> {
        Err(virtio_drivers::Error::Unsupported)
    }
}

/// The driver crate's queue in this thread's guest memory.
pub fn peer_driver(event_idx: bool, indirect: bool) -> (VirtQueue<GuestHal, SIZE>, Addresses) {
    let mut addresses = Addresses::default();
    let queue = VirtQueue::new(&mut addresses, 0, indirect, event_idx).unwrap();
    (queue, addresses)
}

/// The device crate's queue at these addresses.
pub fn peer_device(addresses: &Addresses, event_idx: bool) -> Queue {
    let mut queue = Queue::new(1 << 15).unwrap();
    let halves = |addr: u64| (Some(addr as u32), Some((addr >> 32) as u32));
    queue.set_size(addresses.size as u16);
    let (low, high) = halves(addresses.descriptors);
    queue.set_desc_table_address(low, high);
    let (low, high) = halves(addresses.avail);
    queue.set_avail_ring_address(low, high);
    let (low, high) = halves(addresses.used);
    queue.set_used_ring_address(low, high);
    queue.set_event_idx(event_idx);
    queue.set_ready(true);
    queue
}
