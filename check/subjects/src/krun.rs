//! krun-devices 0.1.0-1.19.7, the device side of a split ring in libkrun.

use krun_devices::virtio::Queue;
use vm_memory_17::{GuestAddress, GuestMemoryMmap};
use vmbell_check::{Bell, Error, Explorer, Report, Ring, Shape};

use crate::{
    About, Bells, Chains, Device, DeviceSide, DriverSide, SPLIT, Site, driver, handle_chains,
};

pub(crate) const DEVICE: Device = Device {
    about: About {
        name: "krun-devices",
        version: "0.1.0-1.19.7",
        formats: SPLIT,
        starts: false,
        in_order: false,
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

/// The scenario of virtio-net's receive side: a guest with two buffers, and frames that a socket delivers at once.
///
/// The queue is krun's own. `NetWorker`'s modules are private, so this makes the same calls in the same order
/// (`src/virtio/net/worker.rs`, 187 to 222 and 239 to 281). `NetWorker` runs when the guest kicks and when the socket
/// becomes readable, which is reported once (`EPOLLET`).
///
/// # Errors
///
/// If the checker cannot explore the scenario.
#[allow(unsafe_code)]
pub fn explore_receive(
    explorer: &Explorer,
    event_idx: bool,
    frames: u32,
    mend: Mend,
) -> Result<Report, Error> {
    let shape = Shape::split(2, event_idx);
    explorer.run(|scenario| {
        let ring = scenario.ring(shape);
        let (memory, layout) = (ring.memory(), (ring.descriptors, ring.driver, ring.device));
        // SAFETY: the checker keeps its memory mapped while it explores.
        let site = unsafe { Site::new(memory.pointer(), memory.len(), shape, layout) };
        let new = driver("vmbell").new.expect("vmbell is not a reference");
        let mut guest = new(&site, false);
        let worker = scenario.sleeper("worker", &["kick", "socket"]);
        let mut receiver = Receiver {
            served: Served::new(&site),
            frames: 0,
            deferred: false,
            mend,
        };
        scenario.task("guest", move || {
            refill(&mut *guest, 2, worker.bell(0));
            worker.bell(1).signal();
            let mut received = 0;
            loop {
                loop {
                    guest.quiet();
                    let mut taken = 0;
                    while guest.take() {
                        taken += 1;
                        guest.add();
                    }
                    received += taken;
                    if taken > 0 && guest.wants_kick() {
                        worker.bell(0).signal();
                    }
                    if guest.listen() {
                        break;
                    }
                }
                if received == frames {
                    return;
                }
                ring.wait_for_interrupt();
            }
        });
        scenario.background("worker", move || {
            loop {
                let events = worker.wait();
                let (kicked, readable) = (events & 1 != 0, events & 2 != 0);
                receiver.frames += if readable { frames } else { 0 };
                receiver.handle(kicked, readable, ring);
            }
        });
    })
}

/// Makes buffers available, and then asks once whether to notify the device.
fn refill(guest: &mut dyn DriverSide, buffers: u32, kick: Bell) {
    for _ in 0..buffers {
        guest.add();
    }
    if guest.wants_kick() {
        kick.signal();
    }
}

/// How a mended `NetWorker` differs from krun's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// Disables notifications while it takes buffers and enables them afterwards. Continues if buffers are available
    /// again and a frame waits for one.
    pub repeats: bool,
    /// Also interrupts the guest for a frame that waited for a buffer.
    pub signals: bool,
}

/// The receive side of `NetWorker`.
struct Receiver {
    served: Served,
    /// How many frames the socket still has.
    frames: u32,
    /// Whether a frame waits because the guest had no buffer for it.
    deferred: bool,
    mend: Mend,
}

impl Receiver {
    fn handle(&mut self, kicked: bool, readable: bool, ring: Ring) {
        if self.mend.repeats {
            loop {
                self.served.quiet();
                self.process(ring);
                if !(self.served.listen() && self.deferred) {
                    return;
                }
            }
        }
        if kicked {
            self.served.quiet();
            self.process(ring);
            self.served.listen();
        }
        if readable {
            self.served.listen();
            self.process(ring);
            self.served.quiet();
        }
    }

    /// Gives frames to the guest until no frames or no buffers are left.
    fn process(&mut self, ring: Ring) {
        let mut signals = false;
        if self.deferred {
            if !self.served.serve() {
                return;
            }
            self.deferred = false;
            signals = self.mend.signals;
        }
        while self.frames > 0 {
            self.frames -= 1;
            if !self.served.serve() {
                self.deferred = true;
                break;
            }
            signals = true;
        }
        if signals {
            ring.interrupt();
        }
    }
}
