//! Queues for tests: both sides use memory that the test can write to.

mod hostile_device;
mod hostile_driver;
mod model;
mod order;
mod plain_packed;
mod polling;
mod rounds;
mod save;
mod suppression;

use super::{
    driver::Side,
    memory::slice,
    sync::{AtomicU16, AtomicU32, Ordering},
    *,
};

/// The address of buffers. Nothing reads from there.
pub(super) const BUFFERS: u64 = 0x10_0000;
/// The address of indirect tables.
pub(super) const TABLES: u64 = if cfg!(miri) { 0x2000 } else { 0x16_0000 };
/// Room for the largest rings. Miri is slow to make that much memory, so the largest rings are left out there.
const MEMORY: usize = if cfg!(miri) { 0x4000 } else { 0x20_0000 };

pub(super) const SIZE: u16 = 4;
pub(super) const SPLIT: SplitLayout = SplitLayout::contiguous(0, SIZE);
pub(super) const PACKED: PackedLayout = PackedLayout::contiguous(0, SIZE);
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT_FLAG: u16 = 4;
pub(super) const AVAIL: u16 = 1 << 7;
pub(super) const USED: u16 = 1 << 15;

/// The buffer, its flags, and the next descriptor (split) or the id (packed).
pub(super) type Entry = (Buffer, u16, u16);

pub(super) const BUFFER: Buffer = Buffer::new(BUFFERS, 8);

pub(super) const PLAIN: Features = Features {
    event_idx: false,
    indirect: false,
    in_order: false,
};
pub(super) const EVENT_IDX: Features = Features {
    event_idx: true,
    ..PLAIN
};
pub(super) const INDIRECT: Features = Features {
    indirect: true,
    ..PLAIN
};
pub(super) const IN_ORDER: Features = Features {
    in_order: true,
    ..PLAIN
};

pub(super) fn memory() -> HostMemory {
    HostMemory::new(MEMORY)
}

/// Memory for rings of this size, and the address for indirect tables in it. It is small, as models make thousands.
fn memory_for(size: u16) -> (HostMemory, u64) {
    match size {
        ..=16 => (HostMemory::new(0x4000), 0x2000),
        _ => (memory(), TABLES),
    }
}

/// Writes to memory as the other side does.
pub(super) trait Raw {
    fn get16(&self, addr: u64) -> u16;
    fn put16(&self, addr: u64, value: u16);
    fn put32(&self, addr: u64, value: u32);
    fn put64(&self, addr: u64, value: u64);

    /// Writes a descriptor of a split ring.
    fn put_descriptor(&self, addr: u64, buffer: Buffer, flags: u16, next: u16) {
        self.put64(addr, buffer.addr);
        self.put64(
            addr + 8,
            u64::from(buffer.len) | u64::from(flags) << 32 | u64::from(next) << 48,
        );
    }
}

impl<M: RingMemory> Raw for M {
    fn get16(&self, addr: u64) -> u16 {
        slice::<AtomicU16, _>(self, addr, 1).unwrap()[0].load(Ordering::SeqCst)
    }
    fn put16(&self, addr: u64, value: u16) {
        slice::<AtomicU16, _>(self, addr, 1).unwrap()[0].store(value, Ordering::SeqCst);
    }
    fn put32(&self, addr: u64, value: u32) {
        slice::<AtomicU32, _>(self, addr, 1).unwrap()[0].store(value, Ordering::SeqCst);
    }
    fn put64(&self, addr: u64, value: u64) {
        let half = |value: u64| u32::try_from(value & 0xffff_ffff).unwrap();
        self.put32(addr, half(value));
        self.put32(addr + 4, half(value >> 32));
    }
}

/// A test that runs on any queue.
pub(super) trait Test {
    fn run(&self, driver: Driver<u64, impl Side, impl Brand>, device: impl DeviceQueue, name: &str);
}

pub(super) fn split(size: u16, features: Features, test: &impl Test) {
    let (memory, tables) = memory_for(size);
    let layout = SplitLayout::contiguous(0, size);
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
        if features.indirect {
            driver = driver.with_indirect_tables(tables, 8).unwrap();
        }
        let device = SplitDevice::new(&memory, &layout, features).unwrap();
        test.run(
            driver,
            device,
            &format!("split ring of {size}, {features:?}"),
        );
    });
}

pub(super) fn packed(size: u16, features: Features, test: &impl Test) {
    let (memory, tables) = memory_for(size);
    let layout = PackedLayout::contiguous(0, size);
    brand::scoped(|brand| {
        let mut driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
        if features.indirect {
            driver = driver.with_indirect_tables(tables, 8).unwrap();
        }
        let device = PackedDevice::new(&memory, &layout, features).unwrap();
        test.run(
            driver,
            device,
            &format!("packed ring of {size}, {features:?}"),
        );
    });
}

/// Runs a test on both kinds of queue with every combination of features; under Miri only with no features and with
/// all.
pub(super) fn everywhere(sizes: &[u16], test: &impl Test) {
    for bits in (0..8).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let features = Features {
            event_idx: bits & 1 != 0,
            indirect: bits & 2 != 0,
            in_order: bits & 4 != 0,
        };
        for &size in sizes {
            if size.is_power_of_two() {
                split(size, features, test);
            }
            packed(size, features, test);
        }
    }
}

/// Makes a readable buffer available.
pub(super) fn offer(driver: &mut Driver<u64, impl Side, impl Brand>, data: u64) {
    driver.add(&[Buffer::new(BUFFERS, 64)], &[], data).unwrap();
}

/// Takes all available chains and gives them back; returns how many there were.
pub(super) fn serve(device: &mut impl DeviceQueue) -> u64 {
    let mut chain = Chain::with_capacity(64);
    let mut count = 0;
    while let Some(head) = device.pop(&mut chain).unwrap() {
        let len = head.writable_len();
        device.add_used(head, len).unwrap();
        count += 1;
    }
    count
}

/// Takes up to `count` chains and gives them back in one batch, fully written. Returns how many there were.
pub(super) fn serve_at_once(device: &mut impl DeviceQueue, count: u16) -> u64 {
    let mut chain = Chain::with_capacity(64);
    let mut heads = Vec::new();
    for _ in 0..count {
        let Some(head) = device.pop(&mut chain).unwrap() else {
            break;
        };
        let len = head.writable_len();
        heads.push((head, len));
    }
    let served = heads.len() as u64;
    device.add_used_batch(heads).unwrap();
    served
}

/// Sends `count` buffers round, one at a time.
pub(super) fn turn(
    driver: &mut Driver<u64, impl Side, impl Brand>,
    device: &mut impl DeviceQueue,
    count: u64,
) {
    for data in 0..count {
        offer(driver, data);
        assert_eq!(serve(device), 1);
        assert_eq!(driver.get_used().unwrap().unwrap().data, data);
    }
}

/// Takes one chain, and returns the error.
pub(super) fn pop_error(device: &mut impl DeviceQueue) -> QueueError {
    let mut chain = Chain::with_capacity(64);
    let error = device.pop(&mut chain).unwrap_err();
    assert_eq!(
        device.pop(&mut chain).unwrap_err(),
        error,
        "broken queues stay broken"
    );
    error
}
