//! vmbell's queues, saved and restored: a device between any two calls, a driver before any call.

use vmbell_check::choose;
use vmbell_virtqueue::{
    Chain, DeviceControl, DeviceQueue, Head, PackedDevice, PackedDriver, Side, SplitDevice,
    SplitDriver,
};

use super::{ABOUT, Pieces, Queue, Rings, Subject, features, packed_layout, split_layout};
use crate::resume::Resumable;
use crate::{About, Driver, DriverSide, Site};

/// The driver side, restored from its saved state before one of its calls.
pub const DRIVER: Driver = Driver {
    about: About {
        name: "vmbell, restored",
        ..ABOUT
    },
    new: Some(|site, _| new_restored_driver(site)),
    layout: None,
    pieces_if_split: 1,
    pieces_if_packed: 1,
};

/// A device queue, and the chain that was taken.
struct Saved<Q> {
    site: Site,
    attach: fn(&Site) -> Q,
    queue: Q,
    chain: Chain,
    head: Option<Head>,
}

/// A device side that can be saved.
pub(crate) fn new_resumable(site: &Site) -> Box<dyn Resumable> {
    fn over<Q: DeviceQueue + DeviceControl + 'static>(
        site: &Site,
        attach: fn(&Site) -> Q,
    ) -> Box<dyn Resumable> {
        Box::new(Saved {
            site: *site,
            attach,
            queue: attach(site),
            chain: Chain::with_capacity(2),
            head: None,
        })
    }
    if site.is_split() {
        over(site, |site| {
            let queue = SplitDevice::new(site, &split_layout(site), features(site, true));
            queue.expect("the ring is in memory")
        })
    } else {
        over(site, |site| {
            let queue = PackedDevice::new(site, &packed_layout(site), features(site, true));
            queue.expect("the ring is in memory")
        })
    }
}

impl<Q: DeviceQueue + DeviceControl> Resumable for Saved<Q> {
    fn quiet(&mut self) {
        self.queue.disable_notification();
    }
    fn take(&mut self) -> bool {
        let popped = self.queue.pop(&mut self.chain);
        self.head = popped.expect("the driver keeps the rules");
        self.head.is_some()
    }
    fn give_back(&mut self) -> bool {
        let Some(head) = self.head.take() else {
            return false;
        };
        let done = self.queue.add_used(head, 0);
        done.expect("the chain is this queue's");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.queue.needs_notification()
    }
    fn listen(&mut self) -> bool {
        self.queue.enable_notification()
    }
    fn reload(&mut self) {
        let state = self.queue.save(&self.head);
        let state = state.expect("the chain is this queue's");
        self.queue = (self.attach)(&self.site);
        let heads = self.queue.restore(&state);
        self.head = heads.expect("the queue can have its own state").pop();
    }
}

/// A driver queue that is restored before one of its calls.
struct Restored<S: Side> {
    site: Site,
    attach: fn(&Site) -> Rings<S>,
    queue: Queue<S>,
    restored: bool,
}

fn new_restored_driver(site: &Site) -> Box<dyn DriverSide> {
    fn over<S: Side + 'static>(
        site: &Site,
        first: Rings<S>,
        attach: fn(&Site) -> Rings<S>,
    ) -> Box<dyn DriverSide> {
        Box::new(Restored {
            site: *site,
            attach,
            queue: Queue(first, Pieces::One),
            restored: false,
        })
    }
    if site.is_split() {
        let (layout, features) = (split_layout(site), features(site, false));
        let first = SplitDriver::new(site, &layout, features, Subject(()));
        over(site, first.expect("the ring is in memory"), |site| {
            let (layout, features) = (split_layout(site), super::features(site, false));
            let queue = SplitDriver::attach(site, &layout, features, Subject(()));
            queue.expect("the ring is in memory")
        })
    } else {
        let (layout, features) = (packed_layout(site), features(site, false));
        let first = PackedDriver::new(site, &layout, features, Subject(()));
        over(site, first.expect("the ring is in memory"), |site| {
            let (layout, features) = (packed_layout(site), super::features(site, false));
            let queue = PackedDriver::attach(site, &layout, features, Subject(()));
            queue.expect("the ring is in memory")
        })
    }
}

impl<S: Side> Restored<S> {
    /// Returns the queue, perhaps restored. It is restored at most once.
    fn queue(&mut self) -> &mut Queue<S> {
        if !self.restored && choose(2) == 1 {
            self.restored = true;
            let state = self.queue.0.save().expect("no data was taken");
            let mut queue = (self.attach)(&self.site);
            let done = queue.restore(&state, |_| Some(()));
            done.expect("the queue can have its own state");
            self.queue.0 = queue;
        }
        &mut self.queue
    }
}

impl<S: Side> DriverSide for Restored<S> {
    fn add(&mut self) {
        self.queue().add();
    }
    fn wants_kick(&mut self) -> bool {
        self.queue().wants_kick()
    }
    fn take(&mut self) -> bool {
        self.queue().take()
    }
    fn quiet(&mut self) {
        self.queue().quiet();
    }
    fn listen(&mut self) -> bool {
        self.queue().listen()
    }
    fn listen_late(&mut self) -> bool {
        self.queue().listen_late()
    }
}
