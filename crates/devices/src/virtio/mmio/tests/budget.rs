use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Instant;

use vm_memory::Bytes;

use super::*;
use crate::Listener;
use crate::virtio::queue::BUDGET;
use crate::virtio::{Handled, HandlerError, Queue, Request};
use kit::wait::{HANG, await_that};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);
/// Far more chains than one service serves.
const CHAINS: u16 = 20 * BUDGET;

/// A driver that makes the next chain available while the device handles one, so that a chain is always available.
struct Ahead {
    memory: Arc<OnceLock<GuestMemoryMmap>>,
    offered: AtomicU64,
    most: u64,
    begun: Instant,
    /// Set when the driver stops because the test hangs.
    gave_up: Arc<AtomicBool>,
}

impl Ahead {
    /// A driver of `most` chains, whose first chain is already available.
    fn of(most: u64) -> Self {
        Self {
            memory: Arc::default(),
            offered: AtomicU64::new(1),
            most,
            begun: Instant::now(),
            gave_up: Arc::default(),
        }
    }

    fn offer(&self) {
        // Each entry of the ring is descriptor 0, an empty buffer.
        let offered = self.offered.fetch_add(1, Ordering::Relaxed) + 1;
        let memory = self.memory.get().unwrap();
        memory
            .write_obj((offered & 0xffff) as u16, GuestAddress(LAYOUT.avail + 2))
            .unwrap();
    }
}

impl Handler for Ahead {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if self.begun.elapsed() > HANG {
            self.gave_up.store(true, Ordering::Relaxed);
        } else if self.offered.load(Ordering::Relaxed) < self.most {
            self.offer();
        }
        Ok(request.complete(0))
    }
}

/// A live device whose driver has offered its first chain.
fn live(handler: impl Handler + 'static, notify: Notify) -> Device {
    let device = Device::of(handler, notify, Interrupt::none());
    device.negotiate(0);
    assert!(device.set_up(0, 8, &LAYOUT));
    device.go_live();
    device
        .memory
        .write_obj(1_u16, GuestAddress(LAYOUT.avail + 2))
        .unwrap();
    device
}

fn ahead(most: u64) -> (Device, Arc<Queue>) {
    let (device, queue, _) = ahead_until_hung(most);
    (device, queue)
}

/// Like [`ahead`], but also returns whether the driver has given up.
fn ahead_until_hung(most: u64) -> (Device, Arc<Queue>, Arc<AtomicBool>) {
    let driver = Ahead::of(most);
    let gave_up = Arc::clone(&driver.gave_up);
    let memory = Arc::clone(&driver.memory);
    let device = live(driver, Notify::Exit);
    memory.set(device.memory.clone()).unwrap();
    let queue = Arc::clone(&device.transport.queues()[0]);
    (device, queue, gave_up)
}

/// Checks that everything was served, and that the driver must notify again.
fn assert_finished(device: &Device, queue: &Queue) {
    let word = |address: u64| -> u16 { device.memory.read_obj(GuestAddress(address)).unwrap() };
    assert_eq!(queue.served(), u64::from(CHAINS));
    assert_eq!(word(LAYOUT.used + 2), CHAINS);
    assert_eq!(word(LAYOUT.used), 0, "notifications are on");
    assert!(device.transport.take_refusal().is_none());
}

#[test]
fn a_service_ends_with_its_budget_though_the_driver_is_ahead() {
    let (_device, queue) = ahead(u64::MAX);
    for _ in 0..3 {
        let served = queue.serve();
        assert_eq!((served.chains, served.more), (u64::from(BUDGET), true));
    }
}

#[test]
fn one_notification_is_enough_for_all_chains_by_way_of_the_backlog() {
    let (device, queue) = ahead(CHAINS.into());
    device.write(register::QUEUE_NOTIFY, 0);
    assert_eq!(queue.served(), u64::from(BUDGET), "the exit is short");
    while !device.backlog.is_empty() {
        let before = queue.served();
        device.backlog.serve();
        assert!(queue.served() - before <= u64::from(BUDGET));
    }
    assert_finished(&device, &queue);
}

#[test]
fn one_notification_is_enough_for_all_chains_by_way_of_a_listener() {
    let (device, queue) = ahead(CHAINS.into());
    let server = Arc::clone(&queue);
    let serve = move || server.serve_before_sleep().more;
    let listener = Listener::start(|| {}, serve).unwrap();
    listener.event().write(1).unwrap();
    let flags = || -> u16 { device.memory.read_obj(GuestAddress(LAYOUT.used)).unwrap() };
    await_that("all chains", || {
        queue.served() >= CHAINS.into() && flags() == 0
    });
    drop(listener);
    assert_finished(&device, &queue);
}

#[test]
fn a_listener_stops_though_the_driver_is_ahead() {
    let (_device, queue, gave_up) = ahead_until_hung(u64::MAX);
    let server = Arc::clone(&queue);
    let serve = move || server.serve_before_sleep().more;
    let listener = Listener::start(|| {}, serve).unwrap();
    listener.event().write(1).unwrap();
    await_that("many chains", || queue.served() >= CHAINS.into());
    drop(listener);
    assert!(!gave_up.load(Ordering::Relaxed), "hangs");
}

#[test]
fn a_reset_ends_a_service_though_the_driver_is_ahead() {
    let (device, queue, gave_up) = ahead_until_hung(u64::MAX);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = queue.serve();
            }
        });
        await_that("many chains", || queue.served() >= CHAINS.into());
        device.write(register::STATUS, 0);
        let served = queue.served();
        std::thread::yield_now();
        let later = queue.served();
        stop.store(true, Ordering::Relaxed);
        assert!(!gave_up.load(Ordering::Relaxed), "hangs");
        assert_eq!(later, served, "nothing is served after a reset");
    });
    assert_eq!(queue.serve(), Served::default());
}

/// Works until the test tells it to stop.
struct Slow(Arc<Barrier>);

impl Handler for Slow {
    const DEVICE_ID: u32 = 0xffff;

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        self.0.wait();
        self.0.wait();
        Ok(request.complete(0))
    }
}

fn called_meanwhile(notify: Notify) -> Served {
    let barrier = Arc::new(Barrier::new(2));
    let device = live(Slow(Arc::clone(&barrier)), notify);
    let queue = Arc::clone(&device.transport.queues()[0]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| queue.serve());
        barrier.wait();
        assert_eq!(queue.serve(), Served::default());
        barrier.wait();
        first.join().unwrap()
    })
}

#[test]
fn who_calls_while_another_serves_does_not_wait_and_is_not_lost() {
    let served = called_meanwhile(Notify::Exit);
    assert_eq!((served.chains, served.more), (1, true));
}

#[test]
fn a_polled_queue_keeps_nobody_but_its_poller() {
    let served = called_meanwhile(Notify::Never);
    assert_eq!((served.chains, served.more), (1, false));
}
