//! A device that is saved and restored once, between any two of its steps: what a VMM must signal when it resumes.
//!
//! The memory of the ring is also saved, while neither side runs. A signal in flight is in neither state: it is in an
//! eventfd's counter or in the interrupt controller. A restarted device has forgotten where in its handler it was.
#![allow(unsafe_code)]

use std::fmt;

use vmbell_check::{Error, Explorer, Load, Report, Ring, Shape, choose};

use crate::{Site, virtio_queue, vmbell};

/// A device side that can be saved between any two calls.
pub trait Resumable {
    /// Disables notifications.
    fn quiet(&mut self);
    /// Takes one chain; false if no chain is available.
    fn take(&mut self) -> bool;
    /// Returns the chain that was taken as used; false if no chain was taken.
    fn give_back(&mut self) -> bool;
    /// Whether the driver wants to be interrupted for what was given back since the last call.
    fn wants_interrupt(&mut self) -> bool;
    /// Enables notifications. True if a chain is waiting, so that the device must not sleep.
    fn listen(&mut self) -> bool;
    /// Saves the device and the chain that it holds, and replaces the device with one that is restored from them.
    fn reload(&mut self);
}

/// A queue whose device side can be saved.
#[derive(Clone, Copy, Debug)]
pub struct SavedQueue {
    /// The name of the queue.
    pub name: &'static str,
    /// The shape of the ring, with or without an event index.
    pub shape: fn(bool) -> Shape,
    /// Makes the device side.
    pub new: fn(&Site) -> Box<dyn Resumable>,
}

/// The queues whose device side can be saved.
pub const SAVED_QUEUES: [SavedQueue; 3] = [
    SavedQueue {
        name: "vmbell, split",
        shape: |event_idx| Shape::split(2, event_idx),
        new: vmbell::new_resumable,
    },
    SavedQueue {
        name: "vmbell, packed",
        shape: |event_idx| Shape::packed(2, event_idx),
        new: vmbell::new_resumable,
    },
    SavedQueue {
        name: "virtio-queue",
        shape: |event_idx| Shape::split(2, event_idx),
        new: virtio_queue::new_resumable,
    },
];

/// Where a device is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Only where the device sleeps until it is notified.
    EventLoop,
    /// Also between any two steps of the device's handler.
    Anywhere,
}

/// How a device is saved and continues.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// Where the device is saved.
    pub place: Place,
    /// Whether a kick that the device has not seen is also saved.
    pub keeps_kick: bool,
    /// Whether an interrupt that the driver has not seen is also saved.
    pub keeps_interrupt: bool,
    /// Whether the device is notified when it resumes.
    pub kicks: bool,
    /// Whether the driver is interrupted when it resumes.
    pub interrupts: bool,
    /// Whether the device continues at the step where it was saved, instead of at the beginning of its event loop.
    pub goes_on: bool,
}

impl Resume {
    /// The device may be saved anywhere. Unseen signals are dropped, and both are sent when it resumes.
    pub const SAFE: Resume = Resume {
        place: Place::Anywhere,
        keeps_kick: false,
        keeps_interrupt: false,
        kicks: true,
        interrupts: true,
        goes_on: false,
    };

    /// The device may be saved anywhere, and continues there. Unseen signals are kept, and none is sent.
    pub const UNSEEN: Resume = Resume {
        place: Place::Anywhere,
        keeps_kick: true,
        keeps_interrupt: true,
        kicks: false,
        interrupts: false,
        goes_on: true,
    };
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = |keeps: bool| if keeps { "kept" } else { "lost" };
        let place = match self.place {
            Place::EventLoop => "event loop",
            Place::Anywhere => "anywhere",
        };
        let sent = match (self.kicks, self.interrupts) {
            (false, false) => "nothing",
            (true, false) => "kick",
            (false, true) => "interrupt",
            (true, true) => "kick and interrupt",
        };
        let (kick, interrupt) = (kept(self.keeps_kick), kept(self.keeps_interrupt));
        write!(f, "{place} | {kick} | {interrupt} | {sent}")
    }
}

/// The device was restored, and starts its event loop again.
struct Restarted;

/// A device in its event loop.
struct Device {
    side: Box<dyn Resumable>,
    ring: Ring,
    resume: Resume,
    saved: bool,
}

impl Device {
    fn run(mut self) {
        loop {
            let paused = self.may_save(Place::EventLoop).is_err();
            if !paused {
                self.ring.wait_for_kick();
            }
            if paused || self.handle().is_err() {
                self.resume();
            }
        }
    }

    fn handle(&mut self) -> Result<(), Restarted> {
        loop {
            self.may_save(Place::Anywhere)?;
            self.side.quiet();
            loop {
                self.may_save(Place::Anywhere)?;
                if !self.side.take() {
                    break;
                }
                self.may_save(Place::Anywhere)?;
                self.side.give_back();
                self.may_save(Place::Anywhere)?;
                let wanted = self.side.wants_interrupt();
                self.may_save(Place::Anywhere)?;
                if wanted {
                    self.ring.interrupt();
                }
            }
            self.may_save(Place::Anywhere)?;
            let more = self.side.listen();
            self.may_save(Place::Anywhere)?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Saves and restores the device here, or does nothing. Saves at most once.
    fn may_save(&mut self, place: Place) -> Result<(), Restarted> {
        let here = place == Place::EventLoop || self.resume.place == Place::Anywhere;
        if self.saved || !here || choose(2) == 0 {
            return Ok(());
        }
        self.saved = true;
        self.side.reload();
        if !self.resume.keeps_kick {
            self.ring.device_bell(0).clear();
        }
        if !self.resume.keeps_interrupt {
            self.ring.driver_bell().clear();
        }
        if self.resume.goes_on {
            Ok(())
        } else {
            Err(Restarted)
        }
    }

    /// Finishes the chain that was taken before the save, and signals.
    fn resume(&mut self) {
        if self.side.give_back() && self.side.wants_interrupt() {
            self.ring.interrupt();
        }
        if self.resume.kicks {
            self.ring.kick();
        }
        if self.resume.interrupts {
            self.ring.interrupt();
        }
    }
}

/// Explores a device that is saved and restored, with the driver of the specification.
///
/// # Errors
///
/// If the checker cannot explore the device.
pub fn resumed(
    explorer: &Explorer,
    queue: &SavedQueue,
    event_idx: bool,
    resume: Resume,
    requests: u16,
) -> Result<Report, Error> {
    explorer.run(|scenario| {
        let ring = scenario.ring((queue.shape)(event_idx));
        let memory = ring.memory();
        let layout = (ring.descriptors, ring.driver, ring.device);
        // SAFETY: the checker keeps its memory mapped while it explores, and the sides are dropped before it ends.
        let site = unsafe { Site::new(memory.pointer(), memory.len(), ring.shape, layout) };
        let device = Device {
            side: (queue.new)(&site),
            ring,
            resume,
            saved: false,
        };
        scenario.task("driver", ring.reference_driver(Load::new(requests, 2)));
        scenario.background("device", move || device.run());
    })
}
