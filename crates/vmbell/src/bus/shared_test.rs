use std::{
    sync::{
        Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::*;

/// Remembers the last write.
#[derive(Default)]
struct Register(AtomicU64);

impl BusDevice for Register {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(offset);
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }

    fn write(&self, _offset: u64, data: &[u8]) {
        self.0.store(u64::from(data[0]), Ordering::Relaxed);
    }
}

/// A device that moves itself on the bus when it is written to, as a BAR does.
struct Mover {
    bus: Weak<Bus>,
    this: Weak<Self>,
    base: AtomicU64,
}

impl BusDevice for Mover {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn write(&self, _: u64, data: &[u8]) {
        let (bus, this) = (self.bus.upgrade().unwrap(), self.this.upgrade().unwrap());
        let to = u64::from(data[0]) << 8;
        let from = self.base.swap(to, Ordering::Relaxed);
        bus.remove(range(from)).unwrap();
        bus.insert(range(to), this).unwrap();
    }
}

fn range(base: u64) -> BusRange {
    BusRange::new(base, 0x10).unwrap()
}

#[test]
fn changes_reach_readers_that_are_there_already() {
    let bus = Bus::new();
    let mut reader = bus.reader();
    assert!(!reader.write(0x100, &[5]));
    bus.insert(range(0x100), Arc::new(Register::default()))
        .unwrap();
    assert!(reader.write(0x100, &[5]));
    let mut data = [0];
    assert!(reader.read(0x101, &mut data));
    assert_eq!(data, [6]);
    bus.remove(range(0x100)).unwrap();
    assert!(!reader.read(0x100, &mut data));
}

#[test]
fn failed_change_leaves_the_bus_as_it_was() {
    let bus = Bus::new();
    bus.insert(range(0x100), Arc::new(Register::default()))
        .unwrap();
    assert!(
        bus.insert(range(0x108), Arc::new(Register::default()))
            .is_err()
    );
    assert!(bus.remove(range(0x108)).is_err());
    assert_eq!(
        format!("{bus:?}"),
        "Bus([BusRange { first: 256, last: 271 }])"
    );
}

#[test]
fn handler_may_change_the_bus_that_it_runs_on() {
    let bus = Arc::new(Bus::new());
    let device = Arc::new_cyclic(|this| Mover {
        bus: Arc::downgrade(&bus),
        this: Weak::clone(this),
        base: AtomicU64::new(0x100),
    });
    bus.insert(range(0x100), device).unwrap();
    let mut reader = bus.reader();
    assert!(reader.write(0x100, &[2]));
    assert!(!reader.write(0x100, &[3]) && reader.write(0x200, &[3]));
    assert!(reader.write(0x300, &[4]));
}

#[test]
fn removed_device_is_freed_when_readers_are_past_it() {
    let bus = Bus::new();
    let mut reader = bus.reader();
    let device = Arc::new(Register::default());
    let weak = Arc::downgrade(&device);
    bus.insert(range(0x100), device).unwrap();
    assert!(reader.write(0x100, &[1]));
    drop(bus.remove(range(0x100)).unwrap());
    assert!(weak.upgrade().is_some(), "the reader may still be in it");
    reader.idle(|| bus.synchronize());
    assert!(weak.upgrade().is_none());
}

#[test]
fn removed_device_is_freed_by_the_first_change_after_the_next_access_and_not_by_the_access() {
    let bus = Bus::new();
    let mut reader = bus.reader();
    let device = Arc::new(Register::default());
    let weak = Arc::downgrade(&device);
    bus.insert(range(0x100), device).unwrap();
    assert!(reader.write(0x100, &[1]));
    drop(bus.remove(range(0x100)).unwrap());
    assert!(!reader.write(0x100, &[1]));
    assert!(weak.upgrade().is_some());
    bus.insert(range(0x200), Arc::new(Register::default()))
        .unwrap();
    assert!(weak.upgrade().is_none());
}

#[test]
fn devices_come_and_go_under_readers() {
    let bus = Bus::new();
    bus.insert(range(0), Arc::new(Register::default())).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = bus.reader();
                while !done.load(Ordering::Relaxed) {
                    assert!(reader.write(0x8, &[1]), "always there");
                    reader.write(0x100, &[1]);
                }
            });
        }
        for _ in 0..if cfg!(miri) { 20 } else { 5_000 } {
            bus.insert(range(0x100), Arc::new(Register::default()))
                .unwrap();
            bus.remove(range(0x100)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}
