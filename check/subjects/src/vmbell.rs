//! vmbell's split and packed rings, both sides.

pub(crate) mod poll;
mod saved;
pub(crate) mod values;

use std::iter;

use vmbell_virtqueue::{
    Buffer, Chain, DeviceQueue, Features, Head, PackedDevice, PackedDriver, PackedLayout, Side,
    SplitDevice, SplitDriver, SplitLayout,
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
    in_order: true,
};

pub(crate) const DRIVER: Driver = Driver {
    about: ABOUT,
    new: Some(|site, _| new_driver(site, Pieces::One)),
    layout: None,
    pieces_if_split: 1,
    pieces_if_packed: 1,
};

pub(crate) const INDIRECT: Driver = Driver {
    about: About {
        name: "vmbell, indirect",
        ..ABOUT
    },
    new: Some(|site, _| new_driver(site, Pieces::Table)),
    layout: None,
    pieces_if_split: 1,
    pieces_if_packed: 1,
};

/// A driver side whose requests are chains of two descriptors.
pub const CHAINED: Driver = Driver {
    about: About {
        name: "vmbell, chained",
        ..ABOUT
    },
    new: Some(|site, _| new_driver(site, Pieces::Chain)),
    layout: None,
    pieces_if_split: 2,
    pieces_if_packed: 2,
};

pub(crate) const DEVICE: Device = Device {
    about: ABOUT,
    new: Some(|site, _| new_device(site)),
    interrupts: true,
    memory: None,
};

pub use saved::DRIVER as RESTORED_DRIVER;
pub(crate) use saved::new_resumable;
pub use values::Values;

/// Where the indirect tables are: after the buffers.
const TABLES: u64 = 0x900;
/// The entries of one indirect table.
const ENTRIES: u16 = 2;

// The brand of any number of queues, one in each execution.
vmbell_virtqueue::queue_brand!(Subject);

fn features(site: &Site, indirect: bool) -> Features {
    let features = Features::default().with_event_idx(site.shape.event_idx);
    features
        .with_indirect(indirect)
        .with_in_order(site.shape.in_order)
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

/// The pieces of a request's buffer: one, or two in a chain or in an indirect table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pieces {
    One,
    Chain,
    Table,
}

/// A driver queue, and the pieces of its buffers.
struct Queue<S: Side>(Rings<S>, Pieces);

type Rings<S> = vmbell_virtqueue::Driver<(), S, Subject>;

fn new_driver(site: &Site, pieces: Pieces) -> Box<dyn DriverSide> {
    let indirect = pieces == Pieces::Table;
    let features = features(site, indirect);
    if site.is_split() {
        let queue = SplitDriver::<(), _, _>::new(site, &split_layout(site), features, Subject(()));
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        Box::new(Queue(queue, pieces))
    } else {
        let queue =
            PackedDriver::<(), _, _>::new(site, &packed_layout(site), features, Subject(()));
        let mut queue = queue.expect("the ring is in memory");
        if indirect {
            let tables = queue.with_indirect_tables(TABLES, ENTRIES);
            queue = tables.expect("the tables are in memory");
        }
        Box::new(Queue(queue, pieces))
    }
}

impl<S: Side> DriverSide for Queue<S> {
    fn add(&mut self) {
        let piece = [Buffer::new(BUFFER, BUFFER_LEN)];
        let writable: &[Buffer] = match self.1 {
            Pieces::One => &[],
            Pieces::Chain | Pieces::Table => &piece,
        };
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
    fn listen_late(&mut self) -> bool {
        self.0.enable_cb_delayed()
    }
}

/// A device queue, the last chain taken, and whether the device gives back all chains in one batch.
struct Served<Q>(Q, Chain, bool);

fn new_device(site: &Site) -> Box<dyn DeviceSide> {
    let features = features(site, true);
    if site.is_split() {
        let queue = SplitDevice::new(site, &split_layout(site), features);
        Box::new(Served(
            queue.expect("the ring is in memory"),
            Chain::with_capacity(2),
            false,
        ))
    } else {
        let queue = PackedDevice::new(site, &packed_layout(site), features);
        Box::new(Served(
            queue.expect("the ring is in memory"),
            Chain::with_capacity(2),
            false,
        ))
    }
}

impl<Q: DeviceQueue> DeviceSide for Served<Q> {
    fn give_back_at_once(&mut self) {
        self.2 = true;
    }
    fn handle(&mut self, bells: &dyn Bells) {
        handle_chains(self, bells);
    }
}

impl<Q: DeviceQueue> Served<Q> {
    fn pop(&mut self) -> Option<Head> {
        let popped = self.0.pop(&mut self.1);
        popped.expect("the driver keeps the rules")
    }
}

impl<Q: DeviceQueue> Chains for Served<Q> {
    fn quiet(&mut self) {
        self.0.disable_notification();
    }
    fn serve(&mut self) -> bool {
        let Some(head) = self.pop() else { return false };
        let given_back = if self.2 {
            let mut heads = vec![head];
            heads.extend(iter::from_fn(|| self.pop()));
            // Everything writable is written, so that one used element can cover the batch.
            let full = |head: Head| {
                let len = head.writable_len();
                (head, len)
            };
            self.0.add_used_batch(heads.into_iter().map(full))
        } else {
            self.0.add_used(head, 0)
        };
        given_back.expect("the chain is this queue's");
        true
    }
    fn wants_interrupt(&mut self) -> bool {
        self.0.needs_notification()
    }
    fn listen(&mut self) -> bool {
        self.0.enable_notification()
    }
}
