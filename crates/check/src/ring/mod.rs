//! A virtqueue as a scenario: its place in the shared memory, its notifications, and a reference for each side.
//!
//! The reference sides ([`Ring::reference_driver`], [`Ring::reference_device`]) follow virtio 1.3, 2.7 and 2.8 word by word. They
//! are tasks of the harness itself, and need no instrumentation: pair one with the side under test.

mod buffers;
mod packed;
mod shape;
mod split;

use crate::bell::{Bell, Sleeper};
use crate::explorer::Scenario;
use crate::graph::Order;
use crate::names::Meaning;
use crate::shared::Memory;

pub use shape::{Format, Shape};

/// What a driver does: how many requests it makes, and how it waits for them.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many requests the driver makes.
    pub requests: u16,
    /// How many requests the driver makes before it waits for an answer; at most the size of the queue.
    pub depth: u16,
    /// Whether the driver checks if the device wants a notification once per series of requests, and not after each.
    pub batch: bool,
    /// How many used buffers the driver takes before it checks whether it may sleep.
    pub budget: u16,
    /// Whether the driver waits for 3/4 of the in-flight buffers (Linux's `virtqueue_enable_cb_delayed`), and not for
    /// the next one.
    pub late: bool,
    /// Whether interrupts stay enabled while the driver takes used buffers.
    pub armed: bool,
}

/// A virtqueue of a scenario. Copies refer to the same queue.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    memory: Memory,
    /// The queue's shape.
    pub shape: Shape,
    /// The descriptor table, or the packed ring: an offset in the shared memory, as all addresses here.
    pub descriptors: u16,
    /// The available ring, or the driver's event suppression.
    pub driver: u16,
    /// The used ring, or the device's event suppression.
    pub device: u16,
    driver_sleeps: Sleeper,
    device_sleeps: Sleeper,
}

impl Load {
    /// A load of `requests` requests, with at most `depth` in flight.
    pub fn new(requests: u16, depth: u16) -> Load {
        Load {
            requests,
            depth,
            batch: false,
            budget: u16::MAX,
            late: false,
            armed: false,
        }
    }
}

impl Scenario {
    /// A virtqueue at the beginning of the shared memory, with a notification in each direction.
    ///
    /// If the ring has a size that its format does not allow, or the memory is too small, the set-up ends here, and the
    /// exploration returns the error.
    pub fn ring(&mut self, shape: Shape) -> Ring {
        self.ring_in(shape, shape.contiguous())
    }

    /// A virtqueue whose parts are at these offsets.
    pub fn ring_at(&mut self, shape: Shape, descriptors: u16, driver: u16, device: u16) -> Ring {
        self.ring_in(shape, [descriptors, driver, device].map(usize::from))
    }

    fn ring_in(&mut self, shape: Shape, places: [usize; 3]) -> Ring {
        let memory = self.memory().len();
        let [descriptors, driver, device] = shape
            .place(places, memory)
            .unwrap_or_else(|error| self.refuse(error));
        let at = |offset: u16| usize::from(offset);
        let size = at(shape.size);
        for slot in 0..size {
            let base = at(descriptors) + 16 * slot;
            let last = match shape.format {
                Format::Split => [
                    ("flags", Meaning::DescriptorFlags),
                    ("next", Meaning::Number),
                ],
                Format::Packed => [("id", Meaning::Number), ("flags", Meaning::DescriptorFlags)],
            };
            self.name(base, 8, &format!("desc[{slot}].addr"));
            self.name(base + 8, 4, &format!("desc[{slot}].len"));
            for ((name, meaning), at) in last.into_iter().zip([12, 14]) {
                self.name_as(base + at, 2, &format!("desc[{slot}].{name}"), meaning);
            }
        }
        match shape.format {
            Format::Split => {
                self.name(at(driver), 2, "avail.flags");
                self.name(at(driver) + 2, 2, "avail.idx");
                self.name(at(device), 2, "used.flags");
                self.name(at(device) + 2, 2, "used.idx");
                for slot in 0..size {
                    self.name(at(driver) + 4 + 2 * slot, 2, &format!("avail.ring[{slot}]"));
                    self.name(
                        at(device) + 4 + 8 * slot,
                        4,
                        &format!("used.ring[{slot}].id"),
                    );
                    self.name(
                        at(device) + 8 + 8 * slot,
                        4,
                        &format!("used.ring[{slot}].len"),
                    );
                }
                self.name(at(driver) + 4 + 2 * size, 2, "used_event");
                self.name(at(device) + 4 + 8 * size, 2, "avail_event");
            }
            Format::Packed => {
                for (part, base) in [("driver_event", at(driver)), ("device_event", at(device))] {
                    self.name_as(base, 2, &format!("{part}.off_wrap"), Meaning::OffWrap);
                    self.name_as(base + 2, 2, &format!("{part}.flags"), Meaning::EventFlags);
                }
            }
        }
        let driver_sleeps = self.sleeper("driver", &["interrupt"]);
        let device_sleeps = self.sleeper("device", &["kick", "pause"]);
        Ring {
            memory: self.memory(),
            shape,
            descriptors,
            driver,
            device,
            driver_sleeps,
            device_sleeps,
        }
    }
}

impl Ring {
    /// The driver notifies the device.
    pub fn kick(&self) {
        self.device_sleeps.bell(0).signal();
    }

    /// The device interrupts the driver.
    pub fn interrupt(&self) {
        self.driver_sleeps.bell(0).signal();
    }

    /// The device sleeps until it is notified. Returns whether it was kicked.
    pub fn wait_for_kick(&self) -> bool {
        self.device_sleeps.wait() & 1 != 0
    }

    /// The driver sleeps until it is interrupted.
    pub fn wait_for_interrupt(&self) {
        self.driver_sleeps.wait();
    }

    /// A bell of the device: 0 is the kick; the others are for other wake-ups of its thread, such as a pause.
    pub fn device_bell(&self, bit: u8) -> Bell {
        self.device_sleeps.bell(bit)
    }

    /// The driver's bell.
    pub fn driver_bell(&self) -> Bell {
        self.driver_sleeps.bell(0)
    }

    /// Where the device sleeps.
    pub fn device_sleeper(&self) -> Sleeper {
        self.device_sleeps
    }

    /// Where the driver sleeps.
    pub fn driver_sleeper(&self) -> Sleeper {
        self.driver_sleeps
    }

    /// The shared memory.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Makes both sides of a split ring begin at the index of its shape. For the set-up of a scenario.
    pub fn preset(&self) {
        if self.shape.format == Format::Split && self.shape.start != 0 {
            let size = self.shape.size;
            let start = self.shape.start.to_le_bytes();
            for at in [
                self.driver + 2,
                self.device + 2,
                self.driver + 4 + 2 * size,
                self.device + 4 + 8 * size,
            ] {
                self.memory.preset(at.into(), &start);
            }
        }
    }

    /// The driver of the specification. It returns once all its requests are answered.
    pub fn reference_driver(self, load: Load) -> impl FnOnce() + 'static {
        move || match self.shape.format {
            Format::Split => split::drive(&self, load),
            Format::Packed => packed::drive(&self, load),
        }
    }

    /// The device of the specification. It never returns, and gives each buffer back before it takes the next.
    pub fn reference_device(self) -> impl FnOnce() + 'static {
        self.reference_device_in_batches(1)
    }

    /// Like [`reference_device`](Self::reference_device), but the device gives back up to `most` buffers in one batch;
    /// on an in-order ring, with one used element.
    pub fn reference_device_in_batches(self, most: u16) -> impl FnOnce() + 'static {
        move || match self.shape.format {
            Format::Split => split::serve(&self, most),
            Format::Packed => packed::serve(&self, most),
        }
    }

    fn load16(&self, at: u16, order: Order) -> u16 {
        let value = self.memory.load(at.into(), 2, order);
        u16::try_from(value).unwrap_or(u16::MAX)
    }

    fn store16(&self, at: u16, value: u16, order: Order) {
        self.memory.store(at.into(), 2, value.into(), order);
    }

    fn load32(&self, at: u16, order: Order) -> u32 {
        let value = self.memory.load(at.into(), 4, order);
        u32::try_from(value).unwrap_or(u32::MAX)
    }

    fn store32(&self, at: u16, value: u32, order: Order) {
        self.memory.store(at.into(), 4, value.into(), order);
    }
}

/// Returns whether `event` is one of the indices in `old..new` (virtio 1.3, 2.7.10).
fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
