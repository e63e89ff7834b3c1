use std::{
    sync::{
        Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
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

/// A device that moves itself on the bus at each write, as a BAR does.
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
fn removed_device_is_freed_at_once_though_a_reader_has_used_it() {
    let bus = Bus::new();
    let mut reader = bus.reader();
    let device = Arc::new(Register::default());
    let weak = Arc::downgrade(&device);
    bus.insert(range(0x100), device).unwrap();
    assert!(reader.write(0x100, &[1]));
    drop(bus.remove(range(0x100)).unwrap());
    assert!(weak.upgrade().is_none(), "the reader's thread may sleep");
}

/// A handler that reports that it runs, and returns when it is told to.
struct Held(Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl BusDevice for Held {
    fn read(&self, _: u64, _: &mut [u8]) {}

    fn write(&self, _: u64, _: &[u8]) {
        let held = self.0.lock();
        held.0.send(()).unwrap();
        held.1.recv().unwrap();
    }
}

#[test]
fn a_removal_that_waits_returns_when_the_handler_has_returned_and_not_before_unless_its_time_is_over()
 {
    let bus = Bus::new();
    let ((began, begun), (go_on, told)) = (mpsc::channel(), mpsc::channel());
    let device = Arc::new(Held(Mutex::new((began, told))));
    let weak = Arc::downgrade(&device);
    bus.insert(range(0x100), Arc::clone(&device) as _).unwrap();
    bus.insert(range(0x200), device).unwrap();
    let hang = Duration::from_secs(60);
    thread::scope(|scope| {
        let mut reader = bus.reader();
        let vcpu = scope.spawn(move || {
            assert!(reader.write(0x100, &[1]));
            reader
        });
        begun.recv().unwrap();
        let limit = Duration::from_millis(1);
        let early = bus.remove_and_wait(range(0x100), limit);
        let range_ = range(0x100);
        assert!(
            matches!(early, Err(BusError::StillRuns { range, .. }) if range == range_),
            "it runs"
        );
        assert!(weak.upgrade().is_some());
        let late = scope.spawn(|| bus.remove_and_wait(range(0x200), hang));
        go_on.send(()).unwrap();
        drop(late.join().unwrap().unwrap());
        let mut reader = vcpu.join().unwrap();
        assert!(!reader.write(0x100, &[1]));
    });
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

#[test]
fn changes_during_a_long_handler_do_not_pile_up() {
    let bus = Bus::new();
    let ((began, begun), (go_on, told)) = (mpsc::channel(), mpsc::channel());
    let device = Arc::new(Held(Mutex::new((began, told))));
    bus.insert(range(0x100), device).unwrap();
    let waiting = || bus.snapshot.domain().reclaim();
    thread::scope(|scope| {
        let mut reader = bus.reader();
        scope.spawn(move || reader.write(0x100, &[1]));
        begun.recv().unwrap();
        let mover = scope.spawn(|| {
            for _ in 0..10 * WAITING {
                let device = Arc::new(Register::default());
                bus.insert(range(0x200), device).unwrap();
                bus.remove(range(0x200)).unwrap();
            }
        });
        while waiting() <= WAITING {
            thread::yield_now();
        }
        // The change that waits now blocks all later changes until the handler returns.
        for _ in 0..100 {
            assert_eq!(waiting(), WAITING + 1);
            thread::sleep(LOOK);
        }
        assert!(!mover.is_finished());
        go_on.send(()).unwrap();
        mover.join().unwrap();
    });
    assert_eq!(waiting(), 0);
}
