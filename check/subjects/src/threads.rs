//! vmbell's virtio device, shared by a VMM's threads: each thread may serve the device's queue, complete a request
//! later, stop the queue or reset the device. VMMs use the same device, with its MMIO registers; the words of its locks
//! are in the explored memory.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vmbell::bus::{Backlog, BusDevice};
use vmbell::sync::place_words;
use vmbell_check::{Bell, Error, Explorer, Memory, Order, Report, Scenario, Shape, claim, fence};
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{
    Handled, Handler, HandlerError, Notify, Pending, Queue, Request, VirtioConfig, VirtioDevice,
};
use vmbell_hypervisor::IrqTrigger;

use crate::Site;
use crate::memory::BUFFER;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The thread was notified of an available chain, and serves the queue.
    Serve,
    /// A vCPU makes a chain available, and serves if the device wants to be notified.
    Notify,
    /// The thread completes the request that is pending.
    Complete,
    /// A vCPU stops the queue.
    Stop,
    /// A vCPU resets the device, and uses it again with another ring that has an available chain.
    Reset,
}

/// The descriptors of a ring.
const SIZE: u16 = 4;
/// Where the second ring is: after the first one.
const SECOND: u16 = 0x200;
/// Where the words of locks and atomics are.
const WORDS: usize = 0x1000;

thread_local! {
    /// Where the next word goes, and how many words there is room for, while a scenario is set up.
    static NEXT: Cell<Option<(NonNull<u64>, usize)>> = const { Cell::new(None) };
}

fn place(value: u64) -> Option<&'static AtomicU64> {
    let (at, room) = NEXT.get()?;
    assert!(room > 0, "the memory has no room for another word");
    // SAFETY: `with_words` counted the words of the explored memory from `at` on, and this is one of them.
    NEXT.set(Some((unsafe { at.add(1) }, room - 1)));
    // SAFETY: it is aligned, in the explored memory, which outlives the device, and only these atomics access it.
    let word = unsafe { AtomicU64::from_ptr(at.as_ptr()) };
    word.store(value, Ordering::Relaxed);
    Some(word)
}

/// Calls `make`, and puts the words of the result's locks and atomics after the first page of this memory.
///
/// # Panics
///
/// If the memory has no room for them.
pub fn with_words<T>(memory: Memory, make: impl FnOnce() -> T) -> T {
    let room = memory.len().checked_sub(WORDS);
    let room = room.expect("the memory has one page") / size_of::<u64>();
    place_words(place);
    // SAFETY: the offset is in the memory, or at its end.
    NEXT.set(Some((unsafe { memory.pointer().add(WORDS) }.cast(), room)));
    let made = make();
    NEXT.set(None);
    made
}

/// A device that completes each request at once, except the first.
struct Device {
    defers: AtomicBool,
    pending: Arc<Mutex<Option<Pending>>>,
}

impl Handler for Device {
    const DEVICE_ID: u32 = 42;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if self.defers.swap(false, Ordering::Relaxed) {
            let (pending, handled) = request.defer();
            let mut place = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(pending);
            return Ok(handled);
        }
        Ok(request.complete(0))
    }
}

/// The driver's interrupt.
struct Trigger(Bell);

// SAFETY: the checker runs all tasks of a scenario on the thread that set it up.
unsafe impl Send for Trigger {}
// SAFETY: as above.
unsafe impl Sync for Trigger {}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trigger")
    }
}

impl IrqTrigger for Trigger {
    fn signal(&self) {
        SIGNALS.with(|signals| {
            if signals.get() {
                self.0.signal();
            }
        });
    }
}

thread_local! {
    /// Whether the device interrupts. It does not while a scenario is set up, because no task runs then.
    static SIGNALS: Cell<bool> = const { Cell::new(false) };
}

/// A split ring of four descriptors. Each descriptor is a chain.
#[derive(Clone, Copy)]
struct Area(u16);

impl Area {
    fn avail_idx(self) -> usize {
        usize::from(self.0 + 16 * SIZE + 2)
    }

    fn used_idx(self) -> usize {
        usize::from(self.0 + 0x100 + 2)
    }

    /// Writes what the driver writes before it notifies the device, with this number of chains.
    fn preset(self, memory: Memory, available: u16) {
        for id in 0..SIZE {
            let at = usize::from(self.0);
            let descriptor = at + 16 * usize::from(id);
            memory.preset(descriptor, &BUFFER.to_le_bytes());
            memory.preset(descriptor + 8, &8_u32.to_le_bytes());
            // The device may write to the buffer.
            memory.preset(descriptor + 12, &2_u16.to_le_bytes());
            let entry = at + 16 * usize::from(SIZE) + 4 + 2 * usize::from(id);
            memory.preset(entry, &id.to_le_bytes());
        }
        memory.preset(self.avail_idx(), &available.to_le_bytes());
    }

    fn wants_notification(self, memory: Memory) -> bool {
        memory.load(self.used_idx() - 2, 2, Order::Relaxed) & 1 == 0
    }

    fn used(self, memory: Memory) -> u64 {
        memory.load(self.used_idx(), 2, Order::Acquire)
    }

    /// Starts the device with this ring.
    fn use_it(self, device: &VirtioMmio) {
        let set = |register: u64, value: u32| device.write(register, &value.to_le_bytes());
        set(register::STATUS, 1 | 2);
        set(register::DRIVER_FEATURES_SEL, 1);
        set(register::DRIVER_FEATURES, 1);
        set(register::STATUS, 1 | 2 | 8);
        set(register::QUEUE_SIZE, SIZE.into());
        set(register::QUEUE_DESC[0], self.0.into());
        set(register::QUEUE_DRIVER[0], u32::from(self.0 + 16 * SIZE));
        set(register::QUEUE_DEVICE[0], u32::from(self.0 + 0x100));
        set(register::QUEUE_READY, 1);
        set(register::STATUS, 1 | 2 | 8 | 4);
    }
}

const FIRST: Area = Area(0);
const OTHER: Area = Area(SECOND);

fn serve(queue: &Queue) {
    while queue.serve().more {}
}

/// Explores threads that do these acts.
///
/// # Errors
///
/// If the checker cannot explore the threads.
pub fn explore(explorer: &Explorer, acts: &[Act]) -> Result<Report, Error> {
    let explorer = explorer.clone().pages(2).with_guarded_data();
    explorer.run(|scenario| set_up(scenario, acts))
}

fn set_up(scenario: &mut Scenario, acts: &[Act]) {
    let memory = scenario.memory();
    let is_pending = acts.contains(&Act::Complete);
    let available = u16::from(is_pending) + u16::from(acts.contains(&Act::Serve));
    FIRST.preset(memory, u16::from(is_pending));
    OTHER.preset(memory, 1);
    SIGNALS.set(false);
    let interrupts = scenario.sleeper("driver", &["interrupt"]);
    let (device, pending) = with_words(memory, || new(memory, interrupts.bell(0), is_pending));
    let queue = Arc::clone(&device.queues()[0]);
    if is_pending {
        serve(&queue);
    }
    SIGNALS.set(true);
    scenario.name(WORDS, 0x1000, "word");
    scenario.name(FIRST.avail_idx(), 2, "avail.idx");
    scenario.name(FIRST.used_idx() - 2, 2, "used.flags");
    scenario.name(FIRST.used_idx(), 2, "used.idx");
    scenario.name(OTHER.used_idx(), 2, "second used.idx");
    memory.preset(FIRST.avail_idx(), &available.to_le_bytes());

    let mut ended = Vec::new();
    for (at, act) in acts.iter().copied().enumerate() {
        let name = format!("{act:?} {at}");
        let done = scenario.sleeper(&format!("{name} ended"), &["ended"]);
        ended.push(done);
        let (device, queue) = (Arc::clone(&device), Arc::clone(&queue));
        let mut pending = pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(|_| act == Act::Complete);
        scenario.task(&name, move || {
            match act {
                Act::Serve => serve(&queue),
                Act::Notify => {
                    memory.update(FIRST.avail_idx(), 2, Order::Release, |idx| Some(idx + 1));
                    fence(Order::SeqCst);
                    if FIRST.wants_notification(memory) {
                        serve(&queue);
                    }
                }
                Act::Complete => {
                    let pending = pending.take().expect("the first request is pending");
                    pending.complete(|_| 0);
                }
                Act::Stop => {
                    device.write(register::QUEUE_READY, &[0; 4]);
                    stays(memory);
                }
                Act::Reset => {
                    device.write(register::STATUS, &[0; 4]);
                    stays(memory);
                    OTHER.use_it(&device);
                    serve(&queue);
                }
            }
            done.bell(0).signal();
        });
    }
    // The device is dropped here, so that no task is its last owner.
    scenario.at_end(move || {
        drop(device);
        Ok(())
    });
    let count = |act| acts.iter().filter(|other| **other == act).count() as u64;
    let is_stopped = count(Act::Stop) + count(Act::Reset) > 0;
    let chains = u64::from(available) + count(Act::Notify);
    let is_reset = count(Act::Reset) > 0;
    scenario.task("driver", move || {
        for done in ended {
            done.wait();
        }
        let used = FIRST.used(memory);
        if is_stopped {
            let at_stop = memory.load(STOPPED, 8, Order::Relaxed);
            claim(used == at_stop, || {
                format!("{used} chains are used, and {at_stop} were when the queue stopped")
            });
        } else {
            claim(used == chains, || {
                format!("{used} of {chains} chains are used")
            });
            interrupts.wait();
        }
        if is_reset {
            let used = OTHER.used(memory);
            claim(used == 1, || {
                format!("{used} chains of the ring after the reset are used")
            });
        }
    });
}

/// Where the scenario stores how many chains were used when the queue was stopped.
const STOPPED: usize = 0x700;

fn stays(memory: Memory) {
    memory.store(STOPPED, 8, FIRST.used(memory), Order::Relaxed);
}

/// Makes a device that is in use. Also returns its deferred request.
fn new(
    memory: Memory,
    interrupt: Bell,
    defers: bool,
) -> (Arc<VirtioMmio>, Arc<Mutex<Option<Pending>>>) {
    let pending = Arc::<Mutex<Option<Pending>>>::default();
    let handler = Device {
        defers: defers.into(),
        pending: Arc::clone(&pending),
    };
    let config = VirtioConfig {
        notify: Notify::Exit,
        ..VirtioConfig::default()
    };
    let virtio = VirtioDevice::new(handler, 1, config);
    // SAFETY: the checker keeps its memory mapped while it explores, and the device is not used afterwards.
    let site = unsafe {
        Site::new(
            memory.pointer(),
            WORDS,
            Shape::split(SIZE, false),
            (0, 0, 0),
        )
    };
    let interrupt = Interrupt::new(Box::new(Trigger(interrupt)));
    let device = VirtioMmio::new(virtio, &site.guest_memory(), interrupt, Backlog::default());
    let device = device.expect("the device needs nothing of the host");
    FIRST.use_it(&device);
    (Arc::new(device), pending)
}
