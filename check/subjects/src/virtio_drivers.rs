//! virtio-drivers 0.13.0 (rcore-os), the driver side of a split ring in unikernels and boot loaders.
//!
//! A driver that begins near index 65,535 is a bitwise copy of a driver that has made that many requests.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PhysAddr, Result};
use vmbell_check::Shape;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::memory::{BUFFER, BUFFER_LEN};
use crate::{About, Driver, DriverSide, Layout, SPLIT, Site};

pub(crate) const DRIVER: Driver = Driver {
    about: About {
        name: "virtio-drivers",
        version: "0.13.0",
        formats: SPLIT,
        starts: true,
        in_order: false,
    },
    new: Some(new),
    layout: Some(layout),
    pieces_if_split: 1,
    pieces_if_packed: 1,
};

/// A request's buffer.
static BYTES: [u8; BUFFER_LEN as usize] = [0; BUFFER_LEN as usize];
const PAGE: u16 = 4096;
/// Added to an offset to get a physical address, because the crate takes 0 for a failed allocation.
const PHYSICAL: u64 = 0x10000;

thread_local! {
    /// The memory of the queue that is being made, and how much of it is allocated.
    static MAKES: RefCell<Option<(Site, usize)>> = const { RefCell::new(None) };
    /// Drivers that have made requests, each with its ring and the contents of its memory.
    static WARM: RefCell<Vec<Rc<Warm>>> = const { RefCell::new(Vec::new()) };
}

/// The layout of the crate: a page for what the driver writes, and a page for what the device writes.
fn layout(shape: Shape) -> Layout {
    // The checker refuses a ring that does not fit.
    (0, shape.size.saturating_mul(16), PAGE)
}

struct Memory;

// SAFETY: the pages belong to a `Site`, whose maker vouches for them, and each is returned once for a queue.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        MAKES.with_borrow_mut(|makes| {
            let (site, allocated) = makes.as_mut().expect("a queue is being made");
            let at = *allocated;
            *allocated += pages * usize::from(PAGE);
            assert!(
                *allocated <= site.len,
                "the memory has a page for each area"
            );
            (PHYSICAL + at as u64, site.at(at))
        })
    }
    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        0
    }
    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        unreachable!("a queue alone has no registers")
    }
    unsafe fn share(_: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        BUFFER
    }
    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}

/// A transport that only records where the queue is.
#[derive(Default)]
struct Addresses([PhysAddr; 3]);

impl Transport for Addresses {
    fn device_type(&self) -> DeviceType {
        DeviceType::Block
    }
    fn read_device_features(&mut self) -> u64 {
        0
    }
    fn write_driver_features(&mut self, _: u64) {}
    fn max_queue_size(&mut self, _: u16) -> u32 {
        256
    }
    fn notify(&mut self, _: u16) {}
    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::empty()
    }
    fn set_status(&mut self, _: DeviceStatus) {}
    fn set_guest_page_size(&mut self, _: u32) {}
    fn requires_legacy_layout(&self) -> bool {
        false
    }
    fn queue_set(&mut self, _: u16, _: u32, areas: PhysAddr, driver: PhysAddr, device: PhysAddr) {
        self.0 = [areas, driver, device];
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
    fn read_config_space<T: FromBytes + IntoBytes>(&self, _: usize) -> Result<T> {
        Err(virtio_drivers::Error::Unsupported)
    }
    fn write_config_space<T: IntoBytes + Immutable>(&mut self, _: usize, _: T) -> Result<()> {
        Err(virtio_drivers::Error::Unsupported)
    }
}

/// A driver that has made requests up to the index at which its ring begins.
struct Warm {
    site: Site,
    /// A `VirtQueue` that is not dropped.
    queue: Box<dyn Any>,
    image: Vec<u8>,
}

struct Requests<const SIZE: usize> {
    queue: VirtQueue<Memory, SIZE>,
    site: Site,
    mended: bool,
    /// The available index, now and when the driver last asked.
    avail: u16,
    asked: u16,
}

fn new(site: &Site, mended: bool) -> Box<dyn DriverSide> {
    match site.shape.size {
        2 => Box::new(Requests::<2>::new(site, mended)),
        4 => Box::new(Requests::<4>::new(site, mended)),
        8 => Box::new(Requests::<8>::new(site, mended)),
        size => panic!("the adapter has no queue of size {size}"),
    }
}

impl<const SIZE: usize> Requests<SIZE> {
    fn new(site: &Site, mended: bool) -> Requests<SIZE> {
        let queue = if site.shape.start == 0 {
            new_queue::<SIZE>(site)
        } else {
            let warm = warm::<SIZE>(site);
            let (from, to) = (warm.image.as_ptr(), site.base().as_ptr());
            // SAFETY: both have the length of the memory, and nothing uses it while a scenario is set up.
            unsafe { ptr::copy_nonoverlapping(from, to, site.len) };
            let queue = warm
                .queue
                .downcast_ref::<ManuallyDrop<VirtQueue<Memory, SIZE>>>();
            let queue: *const VirtQueue<Memory, SIZE> = &**queue.expect("the shapes are the same");
            // SAFETY: the crate's queue owns nothing but its pages, which `dma_dealloc` does not free.
            unsafe { ptr::read(queue) }
        };
        Requests {
            queue,
            site: *site,
            mended,
            avail: site.shape.start,
            asked: site.shape.start,
        }
    }
}

fn new_queue<const SIZE: usize>(site: &Site) -> VirtQueue<Memory, SIZE> {
    MAKES.set(Some((*site, 0)));
    let mut transport = Addresses::default();
    let queue = VirtQueue::new(&mut transport, 0, false, site.shape.event_idx);
    let (descriptors, driver, device) = site.layout;
    let expected = [descriptors, driver, device].map(|offset| PHYSICAL + u64::from(offset));
    assert_eq!(transport.0, expected, "the ring has the subject's layout");
    queue.expect("the memory is large enough")
}

/// Returns a driver of this site that has made requests, each of which was answered at once.
fn warm<const SIZE: usize>(site: &Site) -> Rc<Warm> {
    let same = |other: &Site| {
        let (one, two) = (other.shape, site.shape);
        let same = |shape: Shape| (shape.size, shape.start, shape.event_idx);
        other.base() == site.base() && same(one) == same(two)
    };
    let known = WARM.with_borrow(|all| all.iter().find(|warm| same(&warm.site)).cloned());
    if let Some(known) = known {
        return known;
    }
    // SAFETY: nothing else uses the memory while a scenario is set up.
    unsafe { ptr::write_bytes(site.base().as_ptr(), 0, site.len) };
    let mut queue = new_queue::<SIZE>(site);
    let (_, avail, used) = site.layout;
    let size = site.shape.size;
    for index in 0..site.shape.start {
        // SAFETY: the buffer is static.
        let token = unsafe { queue.add(&[&BYTES], &mut []) };
        let token = token.expect("the queue has a free descriptor");
        let slot = used + 4 + 8 * (index % size);
        site.field(slot).store(token, Ordering::Relaxed);
        let next = index.wrapping_add(1);
        site.field(used + 2).store(next, Ordering::Relaxed);
        let avail_event = used + 4 + 8 * size;
        site.field(avail_event).store(next, Ordering::Relaxed);
        // SAFETY: these are the buffers of `add`.
        let popped = unsafe { queue.pop_used(token, &[&BYTES], &mut []) };
        popped.expect("the buffer is used");
    }
    assert_eq!(
        site.field(avail + 2).load(Ordering::Relaxed),
        site.shape.start
    );
    let mut image = vec![0; site.len];
    // SAFETY: both have the length of the memory, and nothing else uses it while a scenario is set up.
    unsafe { ptr::copy_nonoverlapping(site.base().as_ptr(), image.as_mut_ptr(), site.len) };
    let warm = Rc::new(Warm {
        site: *site,
        queue: Box::new(ManuallyDrop::new(queue)),
        image,
    });
    WARM.with_borrow_mut(|all| all.push(Rc::clone(&warm)));
    warm
}

impl<const SIZE: usize> DriverSide for Requests<SIZE> {
    fn add(&mut self) {
        // SAFETY: the buffer is static.
        let added = unsafe { self.queue.add(&[&BYTES], &mut []) };
        added.expect("the queue has a free descriptor");
        self.avail = self.avail.wrapping_add(1);
    }
    fn wants_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.asked, self.avail);
        if !self.mended {
            return self.queue.should_notify();
        }
        // The fixes: a fence after the store to the available index, and the comparison of virtio 1.3, 2.7.10.
        fence(Ordering::SeqCst);
        if !self.site.shape.event_idx {
            return self.queue.should_notify();
        }
        let (_, _, used) = self.site.layout;
        let event = self.site.field(used + 4 + 8 * self.site.shape.size);
        vmbell_virtqueue::need_event(event.load(Ordering::Acquire), self.avail, old)
    }
    fn take(&mut self) -> bool {
        let Some(token) = self.queue.peek_used() else {
            return false;
        };
        // SAFETY: all requests have this buffer.
        let popped = unsafe { self.queue.pop_used(token, &[&BYTES], &mut []) };
        popped.expect("the device gives back what is in flight");
        true
    }
    fn quiet(&mut self) {
        self.queue.set_dev_notify(false);
    }
    fn listen(&mut self) -> bool {
        self.queue.set_dev_notify(true);
        if self.mended {
            // The fix: a fence after the store to the used event, in `pop_used`, or to the flag.
            fence(Ordering::SeqCst);
        }
        !self.queue.can_pop()
    }
}
