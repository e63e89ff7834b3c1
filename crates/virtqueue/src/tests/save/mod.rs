//! Queues that are saved and restored.

mod form;
mod hostile;
mod misuse;
mod survives;
mod twins;

use std::collections::HashMap;

use super::*;
use crate::packed::PackedSide;
use crate::split::SplitSide;

/// The parts of the queue are below this address, and indirect tables start here.
const TABLES: u64 = 0x400;
const END: u64 = 0x800;
/// The number of entries of an indirect table.
const ENTRIES: u16 = 4;
/// The status of a device whose driver may ask for wrap counters.
const STATUS: Status = Status(1 | 2 | 8);

// A brand that several queues can share, so that a restored queue can be polled with tokens of the saved one.
crate::queue_brand!(Any);

/// The data of the buffers in flight, by id.
fn data(driver: &Driver<u64, impl Side, Any>) -> HashMap<u16, u64> {
    driver.in_flight().map(|(id, &data)| (id, data)).collect()
}

/// A state as bytes.
fn bytes(state: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_extend(state, Vec::new()).unwrap()
}

/// A kind of ring, with a size and features, at address 0.
trait Kind: Copy {
    type Side: Side;
    type Device: DeviceQueue + DeviceControl;

    /// A new driver side, or one that is to be restored.
    fn driver(self, memory: &HostMemory, new: bool) -> Driver<u64, Self::Side, Any>;
    fn device(self, memory: &HostMemory) -> Self::Device;
    fn features(self) -> Features;
}

#[derive(Clone, Copy, Debug)]
struct Split(SplitLayout, Features);

#[derive(Clone, Copy, Debug)]
struct Packed(PackedLayout, Features);

/// Implements [`Kind`] with the types of one kind of ring.
macro_rules! kind {
    ($kind:ident, $side:ident, $driver:ident, $device:ident) => {
        impl Kind for $kind {
            type Side = $side<HostMemory>;
            type Device = $device<HostMemory>;

            fn driver(self, memory: &HostMemory, new: bool) -> Driver<u64, Self::Side, Any> {
                let take = if new { $driver::new } else { $driver::attach };
                let driver = take(memory, &self.0, self.1, Any(())).unwrap();
                if self.1.indirect {
                    return driver.with_indirect_tables(TABLES, ENTRIES).unwrap();
                }
                driver
            }

            fn device(self, memory: &HostMemory) -> Self::Device {
                $device::new(memory, &self.0, self.1).unwrap()
            }

            fn features(self) -> Features {
                self.1
            }
        }
    };
}

kind!(Split, SplitSide, SplitDriver, SplitDevice);
kind!(Packed, PackedSide, PackedDriver, PackedDevice);

fn split(size: u16, features: Features) -> Split {
    Split(SplitLayout::contiguous(0, size), features)
}

fn packed(size: u16, features: Features) -> Packed {
    Packed(PackedLayout::contiguous(0, size), features)
}

/// A test that runs on either kind of ring.
trait Case {
    fn run<K: Kind>(&self, kind: K);
}

/// Runs a test on rings of four descriptors of each kind, with every combination of features; under Miri only with no
/// features and with all.
fn everywhere(case: &impl Case) {
    for bits in (0..8).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let features = Features {
            event_idx: bits & 1 != 0,
            indirect: bits & 2 != 0,
            in_order: bits & 4 != 0,
        };
        case.run(split(4, features));
        case.run(packed(4, features));
    }
}

/// Both sides of a queue, and what their callers hold.
struct Pair<K: Kind> {
    kind: K,
    memory: HostMemory,
    driver: Driver<u64, K::Side, Any>,
    device: K::Device,
    heads: Vec<Head>,
    chain: Chain,
    tokens: Vec<(Opaque<Any>, Token<Any>)>,
    /// The data of the next buffer.
    next: u64,
}

impl<K: Kind> Pair<K> {
    fn new(kind: K) -> Self {
        let memory = HostMemory::new(0x800);
        Self {
            kind,
            driver: kind.driver(&memory, true),
            device: kind.device(&memory),
            memory,
            heads: Vec::new(),
            chain: Chain::with_capacity(16),
            tokens: Vec::new(),
            next: 0,
        }
    }

    fn offer(&mut self) {
        self.driver.add(&[], &[BUFFER], self.next).unwrap();
        self.next += 1;
    }

    fn pop(&mut self) {
        let head = self.device.pop(&mut self.chain).unwrap();
        self.heads.push(head.unwrap());
    }

    /// Gives the oldest chain back.
    fn give(&mut self) {
        self.device.add_used(self.heads.remove(0), 0).unwrap();
    }

    fn taken(&mut self) -> Option<u64> {
        self.driver.get_used().unwrap().map(|used| used.data)
    }

    /// Sends a buffer round.
    fn turn(&mut self) {
        self.offer();
        self.pop();
        self.give();
        assert!(self.taken().is_some());
    }

    /// Restores the driver side from its bytes.
    fn restore_driver(&mut self) {
        let saved = self.driver.save().unwrap();
        let state: DriverState = postcard::from_bytes(&bytes(&saved)).unwrap();
        assert_eq!(state, saved);
        let mut data = data(&self.driver);
        let mut driver = self.kind.driver(&self.memory, false);
        driver.restore(&state, |id| data.remove(&id)).unwrap();
        assert!(data.is_empty(), "each buffer was asked for");
        assert_eq!(driver.save().unwrap(), state);
        self.driver = driver;
    }

    /// Restores the device side from its bytes.
    fn restore_device(&mut self) {
        let saved = self.device.save(&self.heads).unwrap();
        let state: DeviceState = postcard::from_bytes(&bytes(&saved)).unwrap();
        assert_eq!(state, saved);
        let mut device = self.kind.device(&self.memory);
        let heads = device.restore(&state).unwrap();
        assert_eq!(heads, self.heads);
        assert_eq!(device.save(&heads).unwrap(), state);
        (self.device, self.heads) = (device, heads);
    }
}
