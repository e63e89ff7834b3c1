//! The two sides of a virtqueue as the loops around them see them, and these loops.
//!
//! A driver sleeps only after it has enabled interrupts and checked the used ring once more; a device sleeps only after
//! it has enabled notifications and checked the available ring once more (virtio 1.3, 2.7.7.1 and 2.7.10).

use std::fmt::Debug;

/// Notifications in both directions. Each behaves like an eventfd.
pub trait Bells: Debug + Send + Sync {
    /// The driver notifies the device.
    fn kick(&self);
    /// The device interrupts the driver.
    fn interrupt(&self);
    /// Sleeps until the device is notified; false if it is to stop.
    fn wait_for_kick(&self) -> bool;
    /// Sleeps until the driver is interrupted; false if it is to stop.
    fn wait_for_interrupt(&self) -> bool;
    /// A pause of a polling driver; false if it is to stop.
    fn spin(&self) -> bool;
    /// Passes some time in native code, to vary which side comes first.
    fn vary(&self) {}
    /// Counts one more answered request.
    fn answered(&self) {}
    /// Whether the driver is to stop before it has made all requests.
    fn is_over(&self) -> bool {
        false
    }
}

/// A driver side.
pub trait DriverSide {
    /// Makes one request available.
    fn add(&mut self);
    /// Whether the device wants to be notified of what was added since the last call.
    fn wants_kick(&mut self) -> bool;
    /// Takes one used buffer back; false if no buffer is used.
    fn take(&mut self) -> bool;
    /// Disables interrupts, if the driver can.
    fn quiet(&mut self);
    /// Enables interrupts. True if no used buffer is waiting, so that the driver may sleep.
    fn listen(&mut self) -> bool;
    /// Enables an interrupt for when 3/4 of the in-flight buffers are used. True if fewer are waiting.
    fn listen_late(&mut self) -> bool {
        panic!("this driver has no late interrupts")
    }
}

/// A device side.
pub trait DeviceSide {
    /// From now on, gives back all chains that it holds in one batch.
    fn give_back_at_once(&mut self) {
        panic!("this device gives buffers back one by one")
    }
    /// Serves the queue until the device may sleep.
    fn handle(&mut self, bells: &dyn Bells);
}

/// The device side of a library that leaves the loop to its user.
pub trait Chains {
    /// Disables notifications.
    fn quiet(&mut self);
    /// Takes one chain, or all, and returns them as used; false if no chain is available.
    fn serve(&mut self) -> bool;
    /// Whether the driver wants to be interrupted for what was given back since the last call.
    fn wants_interrupt(&mut self) -> bool;
    /// Enables notifications. True if a chain is waiting, so that the device must not sleep.
    fn listen(&mut self) -> bool;
}

/// What a driver and a device do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// How many requests the driver makes.
    pub requests: u64,
    /// How many requests are in flight before the driver waits for one; at most the size of the queue.
    pub depth: u64,
    /// Whether the driver asks once per series of requests if the device wants a notification.
    pub batch: bool,
    /// Whether the driver polls for used buffers and never sleeps.
    pub polls: bool,
    /// How many used buffers the driver takes before it asks if it may sleep.
    pub budget: u64,
    /// Whether the driver waits for 3/4 of the in-flight buffers, not for the next one.
    pub late: bool,
    /// Whether interrupts stay enabled while the driver takes used buffers.
    pub armed: bool,
    /// Whether the device gives back all chains that it holds in one batch.
    pub at_once: bool,
    /// Whether adapters add what their subjects lack.
    pub mended: bool,
}

impl Work {
    /// The work of this number of requests, with at most `depth` in flight.
    pub fn new(requests: u64, depth: u64) -> Work {
        Work {
            requests,
            depth,
            batch: false,
            polls: false,
            budget: u64::MAX,
            late: false,
            armed: false,
            at_once: false,
            mended: false,
        }
    }
}

/// The loop of a driver. It returns once all its requests are answered.
pub fn drive(side: &mut dyn DriverSide, work: Work, bells: &dyn Bells) {
    let (mut sent, mut answered) = (0, 0);
    let take = |side: &mut dyn DriverSide| {
        let taken = side.take();
        if taken {
            bells.answered();
        }
        u64::from(taken)
    };
    loop {
        let mut added = false;
        while sent < work.requests && sent - answered < work.depth {
            side.add();
            sent += 1;
            added = true;
            if !work.batch && side.wants_kick() {
                bells.kick();
            }
        }
        if work.batch && added && side.wants_kick() {
            bells.kick();
        }
        if work.polls {
            bells.vary();
            while answered < sent && (sent == work.requests || sent - answered == work.depth) {
                let taken = take(side);
                answered += taken;
                if taken == 0 && !bells.spin() {
                    return;
                }
            }
        } else {
            loop {
                if !work.armed {
                    side.quiet();
                }
                bells.vary();
                let budget = sent.min(answered.saturating_add(work.budget));
                while answered < budget && take(side) == 1 {
                    answered += 1;
                }
                let listen = |side: &mut dyn DriverSide| match work.late {
                    false => side.listen(),
                    true => side.listen_late(),
                };
                if answered == work.requests || listen(side) {
                    break;
                }
            }
        }
        if answered == work.requests || bells.is_over() {
            return;
        }
        let full = sent == work.requests || sent - answered == work.depth;
        if !work.polls && full && !bells.wait_for_interrupt() {
            return;
        }
    }
}

/// The loop of a device that asks after each buffer whether to interrupt the driver.
pub fn handle_chains(side: &mut dyn Chains, bells: &dyn Bells) {
    loop {
        side.quiet();
        while side.serve() {
            if side.wants_interrupt() {
                bells.interrupt();
            }
        }
        if !side.listen() {
            return;
        }
    }
}
