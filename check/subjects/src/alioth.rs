//! alioth 0.12.0, the device side of split and packed rings.
//!
//! The queues get their memory through the public interface: as a region of the VM's memory, which alioth maps itself.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use alioth::hv::{self, MemMapOption, VmMemory};
use alioth::mem::mapped::{ArcMemPages, Ram, RamBus};
use alioth::mem::{MemRegion, MemRegionType};
use alioth::virtio::queue::packed::PackedQueue;
use alioth::virtio::queue::split::SplitQueue;
use alioth::virtio::queue::{DescChain, Queue, QueueReg, Status, VirtQueue};
use alioth::virtio::{self, IrqSender};

use crate::{About, BOTH, Bells, Device, DeviceSide, Site};

pub(crate) const DEVICE: Device = Device {
    about: About {
        name: "alioth",
        version: "0.12.0",
        formats: BOTH,
        starts: false,
        in_order: false,
    },
    new: Some(new),
    interrupts: true,
    memory: Some(|| guest().base),
};

type VirtioResult<T> = Result<T, virtio::Error>;

/// Bytes of guest memory: all the memory that the checker shares.
const LEN: usize = 2 * 4096;

/// The guest memory.
struct Guest {
    base: NonNull<u8>,
    bus: Arc<RamBus>,
}

// SAFETY: the pointer is to memory that is mapped for the rest of the process; `RamBus` has a lock.
unsafe impl Send for Guest {}
// SAFETY: as above.
unsafe impl Sync for Guest {}

/// A VM without a hypervisor.
#[derive(Debug)]
struct NoHypervisor;

impl VmMemory for NoHypervisor {
    fn mem_map(&self, _: u64, _: u64, _: usize, _: MemMapOption) -> Result<(), hv::Error> {
        Ok(())
    }
    fn unmap(&self, _: u64, _: u64) -> Result<(), hv::Error> {
        Ok(())
    }
    fn reset(&self) -> Result<(), hv::Error> {
        Ok(())
    }
    fn mark_private_memory(&self, _: u64, _: u64, _: bool) -> Result<(), hv::Error> {
        Ok(())
    }
}

fn guest() -> &'static Guest {
    static GUEST: OnceLock<Guest> = OnceLock::new();
    GUEST.get_or_init(|| {
        let pages = ArcMemPages::from_anonymous(LEN, None, None).expect("there is memory");
        let base = std::ptr::with_exposed_provenance_mut(pages.addr());
        let memory = alioth::mem::Memory::new(Arc::new(NoHypervisor));
        let region = MemRegion::with_ram(pages, MemRegionType::Ram);
        let added = memory.add_region(0, Arc::new(region));
        added.expect("the memory is empty");
        let bus = memory.ram_bus();
        // A drop of the memory would unmap its regions.
        std::mem::forget(memory);
        Guest {
            base: NonNull::new(base).expect("a mapping is not at 0"),
            bus,
        }
    })
}

/// Sends interrupts through the bells of the device that is being served.
#[derive(Debug)]
struct Interrupts(std::sync::Mutex<Option<Line>>);

/// The bells during one call of `handle`.
#[derive(Clone, Copy, Debug)]
struct Line(*const dyn Bells);

// SAFETY: `Bells` can be shared between threads, and `handle` takes the pointer back before its reference ends.
unsafe impl Send for Line {}

impl IrqSender for Interrupts {
    fn queue_irq(&self, _: u16) {
        let line = *self.0.lock().expect("no thread panicked here");
        if let Some(Line(bells)) = line {
            // SAFETY: `handle` set the pointer from a reference that lives until `handle` clears the pointer.
            unsafe { &*bells }.interrupt();
        }
    }
    fn config_irq(&self) {}
    fn queue_irqfd<F, T>(&self, _: u16, _: F) -> VirtioResult<T>
    where
        F: FnOnce(BorrowedFd) -> VirtioResult<T>,
    {
        unreachable!("a queue without a device has no irqfd")
    }
    fn config_irqfd<F, T>(&self, _: F) -> VirtioResult<T>
    where
        F: FnOnce(BorrowedFd) -> VirtioResult<T>,
    {
        unreachable!("a queue without a device has no irqfd")
    }
}

/// The fixes: a fence after the store that gives a buffer back, and, for arm64, a fence between the load that finds a
/// chain available and the loads that read the chain.
struct Fenced<Q> {
    queue: Q,
    mended: bool,
}

impl<'m, Q: VirtQueue<'m>> VirtQueue<'m> for Fenced<Q> {
    type Index = Q::Index;
    const INIT_INDEX: Q::Index = Q::INIT_INDEX;

    fn desc_avail(&self, index: Q::Index) -> bool {
        self.queue.desc_avail(index)
    }
    fn get_avail(&self, index: Q::Index, ram: &'m Ram) -> VirtioResult<Option<DescChain<'m>>> {
        if self.mended {
            if !self.queue.desc_avail(index) {
                return Ok(None);
            }
            fence(Ordering::Acquire);
        }
        self.queue.get_avail(index, ram)
    }
    fn set_used(&self, index: Q::Index, id: u16, len: u32) {
        self.queue.set_used(index, id, len);
        if self.mended {
            fence(Ordering::SeqCst);
        }
    }
    fn enable_notification(&self, enabled: bool) {
        self.queue.enable_notification(enabled);
    }
    fn interrupt_enabled(&self, index: Q::Index, delta: u16) -> bool {
        self.queue.interrupt_enabled(index, delta)
    }
    fn index_add(&self, index: Q::Index, delta: u16) -> Q::Index {
        self.queue.index_add(index, delta)
    }
}

struct Served<Q: VirtQueue<'static>> {
    queue: Queue<'static, 'static, Fenced<Q>>,
    interrupts: Interrupts,
}

fn new(site: &Site, mended: bool) -> Box<dyn DeviceSide> {
    let guest = guest();
    assert_eq!(site.base(), guest.base, "the ring is in alioth's memory");
    // Devices hold the layout for as long as they serve their queues.
    let ram: &'static Ram = Box::leak(Box::new(guest.bus.lock_layout()));
    let registers: &'static QueueReg = Box::leak(Box::new(QueueReg {
        size: AtomicU16::new(site.shape.size),
        desc: AtomicU64::new(site.layout.0.into()),
        driver: AtomicU64::new(site.layout.1.into()),
        device: AtomicU64::new(site.layout.2.into()),
        enabled: AtomicBool::new(true),
    }));
    if site.is_split() {
        let queue = SplitQueue::new(registers, ram, site.shape.event_idx);
        serve(queue, registers, ram, mended)
    } else {
        let queue = PackedQueue::new(registers, ram, site.shape.event_idx);
        serve(queue, registers, ram, mended)
    }
}

fn serve<Q: VirtQueue<'static> + 'static>(
    queue: VirtioResult<Option<Q>>,
    registers: &'static QueueReg,
    ram: &'static Ram,
    mended: bool,
) -> Box<dyn DeviceSide> {
    let queue = queue.expect("the ring is in memory");
    let queue = queue.expect("the queue is enabled");
    let queue = Queue::new(Fenced { queue, mended }, registers, ram);
    Box::new(Served {
        queue,
        interrupts: Interrupts(std::sync::Mutex::new(None)),
    })
}

impl<Q: VirtQueue<'static>> DeviceSide for Served<Q> {
    fn handle(&mut self, bells: &dyn Bells) {
        // SAFETY: only the lifetime is extended; the pointer is cleared below, while `bells` is alive.
        let line: *const dyn Bells =
            unsafe { std::mem::transmute::<&dyn Bells, &'static dyn Bells>(bells) };
        let set = |line| *self.interrupts.0.lock().expect("no thread panicked here") = line;
        set(Some(Line(line)));
        let handled = self
            .queue
            .handle_desc(0, &self.interrupts, |_| Ok(Status::Done { len: 0 }));
        *self.interrupts.0.lock().expect("no thread panicked here") = None;
        handled.expect("the driver keeps the rules");
    }
}
