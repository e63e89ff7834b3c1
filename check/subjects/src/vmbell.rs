//! vmbell's split and packed rings, both sides.

pub(crate) mod poll;
mod saved;

use vmbell::virtqueue::{
    Brand, Buffer, Chain, DeviceQueue, DriverQueue, Features, PackedDevice, PackedDriver,
    PackedLayout, SplitDevice, SplitDriver, SplitLayout,
};

use crate::memory::{BUFFER, BUFFER_LEN};
use crate::{
    About, BOTH, Bells, Chains, Device, DeviceSide, Driver, DriverSide, Site, handle_chains,
};

const ABOUT: About = About {
    name: "vmbell",
    version: env!("CARGO_PKG_VERSION"),
    formats: BOTH,
    starts: false,
};

pub(crate) const DRIVER: Driver = Driver {
    about: ABOUT,
    new: Some(|site, _| new_driver(site, false)),
    layout: None,
    pieces_if_packed: 1,
};

pub(crate) const INDIRECT: Driver = Driver {
    about: About {
        name: "vmbell, indirect",
        ..ABOUT
    },
    new: Some(|site, _| new_driver(site, true)),
    layout: None,
    pieces_if_packed: 1,
};

pub(crate) const DEVICE: Device = Device {
    about: ABOUT,
    new: Some(|site, _| new_device(site)),
    interrupts: true,
    memory: None,
};

pub use saved::DRIVER as RESTORED_DRIVER;
pub(crate) use saved::new_resumable;

/// Where the indirect tables are: after the buffers.
const TABLES: u64 = 0x900;
/// The entries of one.
const ENTRIES: u16 = 2;

#[derive(Debug)]
struct Subject;
impl Brand for Subject {}

fn features(site: &Site, indirect: bool) -> Features {
    Features {
        event_idx: site.shape.event_idx,
        indirect,
        in_order: false,
    }
}

fn split_layout(site: &Site) -> SplitLayout {
    SplitLayout {
        size: site.shape.size,
        descriptors: site.layout.0.into(),
        avail: site.layout.1.into(),
        used: site.layout.2.into(),
    }
}

fn packed_layout(site: &Site) -> PackedLayout {
    PackedLayout {
        size: site.shape.size,
        descriptors: site.layout.0.into(),
        driver_event: site.layout.1.into(),
        device_event: site.layout.2.into(),
    }
}

/// A driver queue, and whether its buffers have two pieces, which go to an indirect table.
struct Queue<Q>(Q, bool);

fn new_driver(site: &Site, indirect: bool) -> Box<dyn DriverSide> {
    let features = features(site, indirect);
    if site.is_split() {
        let queue = SplitDriver::<(), _, _>::new(site, &split_layout(site), features, Subject);
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        Box::new(Queue(queue, indirect))
    } else {
        let queue = PackedDriver::<(), _, _>::new(site, &packed_layout(site), features, Subject);
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        Box::new(Queue(queue, indirect))
    }
}

impl<Q: DriverQueue<Data = ()>> DriverSide for Queue<Q> {
    fn add(&mut self) {
        let piece = [Buffer::new(BUFFER, BUFFER_LEN)];
        let writable: &[Buffer] = if self.1 { &piece } else { &[] };
        let added = self.0.add(&piece, writable, ());
        added.expect("the queue has a free descriptor");
    }
    fn wants_kick(&mut self) -> bool {
        self.0.kick_prepare()
    }
    fn take(&mut self) -> bool {
        let used = self.0.get_used().expect("the device keeps the rules");
        used.is_some()
    }
    fn quiet(&mut self) {
        self.0.disable_cb();
    }
    fn listen(&mut self) -> bool {
        self.0.enable_cb()
    }
}

struct Served<Q>(Q, Chain);

fn new_device(site: &Site) -> Box<dyn DeviceSide> {
    let features = features(site, true);
    if site.is_split() {
        let queue = SplitDevice::new(site, &split_layout(site), features);
        Box::new(Served(
            queue.expect("the ring is in memory"),
            Chain::with_capacity(2),
        ))
    } else {
        let queue = PackedDevice::new(site, &packed_layout(site), features);
        Box::new(Served(
            queue.expect("the ring is in memory"),
            Chain::with_capacity(2),
        ))
    }
}

impl<Q: DeviceQueue> DeviceSide for Served<Q> {
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl<Q: DeviceQueue> Chains for Served<Q> {
    fn quiet(&mut self) {
        self.0.disable_notification();
    }
    fn serve(&mut self) -> bool {
        let popped = self.0.pop(&mut self.1).expect("the driver keeps the rules");
        let Some(head) = popped else { return false };
        self.0.add_used(head, 0).expect("the chain is this queue's");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.0.needs_notification()
    }
    fn listen(&mut self) -> bool {
        self.0.enable_notification()
    }
}
