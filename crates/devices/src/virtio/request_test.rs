//! A handler that completes requests when the test says so, for a device on MMIO registers.

use vmbell::sync::Mutex;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use crate::virtio::answer_double::{DATA, driver_side, memory, ring};
use crate::virtio::driver::{DriverSide, Interrupts};
use crate::virtio::mmio::Interrupt;
use crate::virtio::ring::IN_ORDER;
use crate::virtio::{Handler, HandlerError, Queue, Served};
use kit::wait::await_that;
use vmbell_virtqueue::{Brand, Features, Side, SplitDriver, SplitLayout, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// Keeps all requests except the empty ones.
#[derive(Default)]
struct Keeper(Mutex<Vec<Pending>>);

impl Handler for Keeper {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if request.writable().is_empty() {
            return Ok(request.complete(0));
        }
        let (pending, handled) = request.defer();
        self.0.lock().push(pending);
        Ok(handled)
    }
}

/// A queue with a handler that defers, and the guest's memory.
struct Rig {
    memory: GuestMemoryMmap,
    driver_side: DriverSide,
    keeper: Arc<Keeper>,
    queue: Queue,
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| Arc::new(Interrupt::none()))
    }

    fn with(interrupts: impl FnOnce(&Arc<Keeper>) -> Arc<dyn Interrupts>) -> Self {
        let (memory, keeper) = (memory(), Arc::new(Keeper::default()));
        let driver_side = DriverSide {
            interrupts: interrupts(&keeper),
            ..driver_side(&memory)
        };
        let queue = Queue::new(0, &driver_side, keeper.clone(), false);
        Self {
            memory,
            driver_side,
            keeper,
            queue,
        }
    }

    fn start(&self, features: u64) {
        let is_in_order = features & IN_ORDER != 0;
        let ring = ring(&self.memory, &LAYOUT, features);
        self.queue.start(ring, is_in_order);
    }

    /// Takes the oldest pending request.
    fn take(&self) -> Pending {
        self.keeper.0.lock().remove(0)
    }

    fn word(&self, at: u64) -> u16 {
        self.memory.read_obj(GuestAddress(at)).unwrap()
    }

    /// Chains in the used ring.
    fn used(&self) -> u16 {
        self.word(LAYOUT.used + 2)
    }
}

/// Starts the queue, with a driver that makes requests available. Each request has eight bytes to write.
fn with_driver(rig: &Rig, features: u64, body: impl FnOnce(&mut dyn Driver)) {
    let of_ring = Features::default().with_in_order(features & IN_ORDER != 0);
    rig.memory
        .write_slice(&[0; 0x1000], GuestAddress(0))
        .unwrap();
    brand::scoped(|brand| {
        let memory = Arc::new(rig.memory.clone());
        let mut driver = SplitDriver::new(&memory, &LAYOUT, of_ring, brand).unwrap();
        rig.start(features);
        body(&mut driver);
    });
}

trait Driver {
    fn send(&mut self, at: u64, len: u32, data: u32);
    /// The data of the next used buffer, and its length.
    fn take(&mut self) -> Option<(u32, u32)>;
}

impl<S: Side, B: Brand> Driver for vmbell_virtqueue::Driver<u32, S, B> {
    fn send(&mut self, at: u64, len: u32, data: u32) {
        let readable = [Buffer::new(DATA + 0x1000, 1)];
        let writable = [Buffer::new(at, len)];
        let writable = if len == 0 { &[][..] } else { &writable };
        self.add(&readable, writable, data).unwrap();
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        let used = self.get_used().unwrap();
        used.map(|used| (used.data, used.len))
    }
}

#[test]
fn second_request_may_be_complete_first() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        driver.send(DATA + 8, 8, 2);
        assert_eq!(rig.queue.serve(), Served::default());
        let (first, second) = (rig.take(), rig.take());
        assert_eq!(driver.take(), None);
        for (pending, text, expected) in [(second, b"second", 2), (first, b"first.", 1)] {
            pending.complete(|mut to| to.write(text));
            assert_eq!(driver.take(), Some((expected, 6)));
        }
        assert_eq!(rig.queue.served(), 2);
    });
    let mut text = [0; 16];
    rig.memory
        .read_slice(&mut text, GuestAddress(DATA))
        .unwrap();
    assert_eq!(&text, b"first.\0\0second\0\0");
}

#[test]
fn in_order_holds_back_what_is_complete_too_early() {
    let rig = Rig::new();
    with_driver(&rig, IN_ORDER, |driver| {
        driver.send(DATA, 8, 1);
        driver.send(DATA, 8, 2);
        driver.send(DATA, 0, 3);
        assert_eq!(rig.queue.serve().chains, 0, "the third one waits as well");
        let (first, second) = (rig.take(), rig.take());
        second.complete(|_| 2);
        assert_eq!((driver.take(), rig.used()), (None, 0));
        first.complete(|_| 1);
        let used = [driver.take(), driver.take(), driver.take()];
        assert_eq!(used, [Some((1, 1)), Some((2, 2)), Some((3, 0))]);
        driver.send(DATA, 0, 4);
        assert_eq!(rig.queue.serve().chains, 1);
    });
    assert!(rig.driver_side.trouble.take().is_none());
}

#[test]
fn request_that_is_pending_over_a_reset_does_not_reach_the_guest() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        driver.send(DATA, 8, 2);
        let _ = rig.queue.serve();
    });
    rig.queue.stop();
    let (stopped, restarted) = (rig.take(), rig.take());
    stopped.complete(|_| unreachable!("it is stopped"));
    assert_eq!(rig.used(), 0);
    // The same descriptor is in flight again.
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 3);
        let _ = rig.queue.serve();
        restarted.complete(|_| unreachable!("it was stopped"));
        assert_eq!((driver.take(), rig.used()), (None, 0));
        rig.take().complete(|_| 4);
        assert_eq!(driver.take(), Some((3, 4)));
    });
    assert_eq!(rig.queue.served(), 1);
    assert!(rig.driver_side.trouble.take().is_none());
}

#[test]
fn reset_waits_for_a_thread_that_writes_an_answer() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        let _ = rig.queue.serve();
    });
    let pending = rig.take();
    let (begins, begun) = std::sync::mpsc::channel();
    let (ends, ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let completes = scope.spawn(move || {
            pending.complete(move |mut to| {
                begins.send(()).unwrap();
                ended.recv().unwrap();
                to.write(b"in time")
            });
        });
        begun.recv().unwrap();
        let stop = scope.spawn(|| rig.queue.stop());
        // No event shows that the other thread waits. If this time is too short, the test can only miss an error.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!stop.is_finished());
        ends.send(()).unwrap();
        completes.join().unwrap();
        stop.join().unwrap();
    });
    assert_eq!(rig.used(), 1);
}

#[test]
fn an_answer_that_panics_stops_the_queue_until_a_reset() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        let _ = rig.queue.serve();
        rig.take().complete(|_| panic!("no answer"));
        assert_eq!(driver.take(), None);
    });
    let refusal = rig.driver_side.trouble.take().unwrap().to_string();
    assert_eq!(refusal, "the device panicked: no answer");
    assert!(rig.driver_side.trouble.needs_reset());
    rig.queue.stop();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 0, 2);
        assert_eq!(rig.queue.serve().chains, 1);
    });
}

#[test]
fn driver_that_changes_descriptors_does_not_change_a_pending_request() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        let _ = rig.queue.serve();
        let pending = rig.take();
        // All descriptors cover all memory and more.
        let descriptors = [0xff; 8 * 16];
        rig.memory
            .write_slice(&descriptors, GuestAddress(LAYOUT.descriptors))
            .unwrap();
        pending.complete(|mut to| to.write(&[7; 9]));
        assert_eq!(rig.used(), 1);
    });
    let mut bytes = [0; 9];
    rig.memory
        .read_slice(&mut bytes, GuestAddress(DATA))
        .unwrap();
    assert_eq!(bytes, [7, 7, 7, 7, 7, 7, 7, 7, 0]);
}

#[test]
fn handler_that_says_it_wrote_more_than_there_is_stops_the_queue() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        driver.send(DATA, 8, 2);
        let _ = rig.queue.serve();
        let (first, second) = (rig.take(), rig.take());
        first.complete(|_| 9);
        assert_eq!(rig.used(), 0);
        second.complete(|_| 8);
        assert_eq!(rig.used(), 0, "it is stopped");
    });
    let refusal = rig.driver_side.trouble.take();
    let refusal = refusal.expect("it was refused").to_string();
    assert_eq!(refusal, "cannot give a chain of queue 0 back");
    assert!(rig.driver_side.trouble.needs_reset());
}

#[test]
fn request_that_is_dropped_is_not_given_back() {
    let rig = Rig::new();
    with_driver(&rig, 0, |driver| {
        driver.send(DATA, 8, 1);
        driver.send(DATA, 8, 2);
        let _ = rig.queue.serve();
        drop(rig.take());
        rig.take().complete(|_| 1);
        assert_eq!((driver.take(), driver.take()), (Some((2, 1)), None));
    });
}

/// Completes the previous request while it handles the next one.
#[derive(Default)]
struct OneBehind(Mutex<Option<Pending>>);

impl Handler for OneBehind {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (pending, handled) = request.defer();
        let before = self.0.lock().replace(pending);
        if let Some(before) = before {
            before.complete(|_| 1);
        }
        Ok(handled)
    }
}

#[test]
fn request_is_given_back_by_the_service_in_which_it_is_complete() {
    let memory = memory();
    let driver_side = driver_side(&memory);
    let queue = Queue::new(0, &driver_side, Arc::new(OneBehind::default()), false);
    brand::scoped(|brand| {
        let theirs = Arc::new(memory.clone());
        let features = Features::default();
        let mut driver = SplitDriver::new(&theirs, &LAYOUT, features, brand).unwrap();
        queue.start(ring(&memory, &LAYOUT, 0), false);
        for data in 0..3 {
            driver.send(DATA, 8, data);
        }
        assert_eq!(queue.serve().chains, 2);
        let used = [driver.take(), driver.take(), driver.take()];
        assert_eq!(used, [Some((0, 1)), Some((1, 1)), None]);
    });
}

/// Completes a request when the driver is interrupted, while the thread that serves still has the ring.
struct AtInterrupt(Arc<Keeper>);

impl Interrupts for AtInterrupt {
    fn used_buffer(&self, _queue: u16) {
        let pending = self.0.0.lock().pop();
        if let Some(pending) = pending {
            pending.complete(|_| 1);
        }
    }

    fn configuration(&self) {}

    fn reset(&self) {}
}

#[test]
fn request_that_is_complete_after_the_last_look_is_given_back() {
    let rig = Rig::with(|keeper| Arc::new(AtInterrupt(Arc::clone(keeper))));
    with_driver(&rig, 0, |driver| {
        for (len, data) in [(8, 1), (8, 2), (0, 3)] {
            driver.send(DATA, len, data);
        }
        let _ = rig.queue.serve();
        let used = [driver.take(), driver.take(), driver.take()];
        assert_eq!(used, [Some((3, 0)), Some((2, 1)), Some((1, 1))]);
    });
}

/// Answers requests only while it has bytes, and gives one byte to each request.
#[derive(Default)]
struct Stock(Mutex<Vec<u8>>);

impl Handler for Stock {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let Some(byte) = self.0.lock().pop() else {
            return Ok(request.wait());
        };
        let written = request.writable().write(&[byte]);
        Ok(request.complete(written))
    }
}

#[test]
fn request_that_waits_is_handled_again_before_later_ones_and_not_after_a_reset() {
    let (memory, stock) = (memory(), Arc::new(Stock::default()));
    let driver_side = driver_side(&memory);
    let queue = Queue::new(0, &driver_side, stock.clone(), false);
    for features in [0, IN_ORDER] {
        memory.write_slice(&[0; 0x1000], GuestAddress(0)).unwrap();
        brand::scoped(|brand| {
            let theirs = Arc::new(memory.clone());
            let of_ring = Features::default().with_in_order(features != 0);
            let mut driver = SplitDriver::new(&theirs, &LAYOUT, of_ring, brand).unwrap();
            queue.start(ring(&memory, &LAYOUT, features), features != 0);
            driver.send(DATA, 8, 1);
            driver.send(DATA + 8, 8, 2);
            for _ in 0..3 {
                assert_eq!(queue.serve(), Served::default());
            }
            stock.0.lock().push(7);
            assert_eq!(queue.serve().chains, 1);
            assert_eq!((driver.take(), driver.take()), (Some((1, 1)), None));
            driver.send(DATA + 16, 8, 3);
            stock.0.lock().extend([9, 8]);
            assert_eq!(queue.serve().chains, 2);
            let used = [driver.take(), driver.take(), driver.take()];
            assert_eq!(used, [Some((2, 1)), Some((3, 1)), None]);
            driver.send(DATA, 8, 4);
            assert_eq!(queue.serve(), Served::default());
        });
        queue.stop();
        stock.0.lock().push(6);
        assert_eq!(queue.serve(), Served::default());
        assert_eq!(stock.0.lock().pop(), Some(6), "it is not taken");
        let mut bytes = [0; 17];
        memory.read_slice(&mut bytes, GuestAddress(DATA)).unwrap();
        assert_eq!((bytes[0], bytes[8], bytes[16]), (7, 8, 9));
    }
    assert!(driver_side.trouble.take().is_none());
}

/// Passes requests to another thread.
struct Sender(std::sync::mpsc::Sender<Pending>);

impl Handler for Sender {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (pending, handled) = request.defer();
        let _ = self.0.send(pending);
        Ok(handled)
    }
}

#[test]
fn no_request_is_lost_between_threads_that_serve_and_complete() {
    const ROUNDS: u32 = 5000;
    let memory = memory();
    let driver_side = driver_side(&memory);
    let (sender, receiver) = std::sync::mpsc::channel();
    let queue = Queue::new(0, &driver_side, Arc::new(Sender(sender)), false);
    queue.start(ring(&memory, &LAYOUT, 0), false);
    std::thread::scope(|scope| {
        // Two threads complete requests, so that one finds the ring taken by the other.
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..2 {
            let receiver = Arc::clone(&receiver);
            scope.spawn(move || {
                while let Ok(pending) = { receiver.lock().recv() } {
                    pending.complete(|_| 1);
                }
            });
        }
        brand::scoped(|brand| {
            let theirs = Arc::new(memory.clone());
            let features = Features::default();
            let mut driver = SplitDriver::new(&theirs, &LAYOUT, features, brand).unwrap();
            for _ in 0..ROUNDS {
                // A chain has two of the eight descriptors.
                for data in 0..4 {
                    driver.send(DATA, 8, data);
                }
                while queue.serve().more {}
                // From here on, only the threads that complete requests check the list.
                let mut taken = 0;
                await_that("four requests", || {
                    taken += u32::from(driver.take().is_some());
                    taken == 4
                });
            }
        });
        drop(queue);
    });
    assert!(driver_side.trouble.take().is_none());
}
