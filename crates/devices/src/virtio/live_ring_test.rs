use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use vm_memory::GuestMemoryMmap;

use super::*;
use crate::listener::Rest;
use crate::virtio::answer_double::{DATA, driver_side, memory, ring};
use crate::virtio::driver::{DriverSide, Interrupts};
use crate::virtio::ring::EVENT_IDX;
use crate::virtio::{Handled, Handler, HandlerError, Queue, Request};
use vmbell_virtqueue::{Brand, Buffer, Features, Side, SplitDriver, SplitLayout, brand};

const SIZE: u16 = 64;
const LAYOUT: SplitLayout = SplitLayout::contiguous(0, SIZE);

/// Completes every request at once.
struct Sink {
    is_awaited: bool,
}

impl Handler for Sink {
    const DEVICE_ID: u32 = 0xffff;

    fn is_awaited(&self, _queue: u16) -> bool {
        self.is_awaited
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        Ok(request.complete(0))
    }
}

/// Counts interrupts.
#[derive(Default)]
struct Counter(AtomicU64);

impl Interrupts for Counter {
    fn used_buffer(&self, _queue: u16) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn configuration(&self) {}

    fn reset(&self) {}
}

struct Rig {
    memory: GuestMemoryMmap,
    counter: Arc<Counter>,
    queue: Queue,
}

impl Rig {
    fn new(is_awaited: bool) -> Self {
        let (memory, counter) = (memory(), Arc::new(Counter::default()));
        let side = DriverSide {
            interrupts: Arc::clone(&counter) as _,
            ..driver_side(&memory)
        };
        let queue = Queue::new(0, &side, Arc::new(Sink { is_awaited }), false);
        Self {
            memory,
            counter,
            queue,
        }
    }

    fn interrupts(&self) -> u64 {
        self.counter.0.load(Ordering::Relaxed)
    }

    fn start(&self, event_idx: bool) {
        let features = if event_idx { EVENT_IDX } else { 0 };
        self.queue
            .start(ring(&self.memory, &LAYOUT, features), false);
    }

    /// Serves as often as the thread would before it sleeps without a time limit.
    fn settle(&self) {
        while self.queue.serve_before_nap() != Rest::Sleep {}
    }
}

/// Starts the queue, with a driver that has notifications on.
fn with_driver(rig: &Rig, event_idx: bool, body: impl FnOnce(&mut dyn Driver)) {
    let of_ring = Features::default().with_event_idx(event_idx);
    brand::scoped(|brand| {
        let memory = Arc::new(rig.memory.clone());
        let mut driver = SplitDriver::new(&memory, &LAYOUT, of_ring, brand).unwrap();
        rig.start(event_idx);
        body(&mut driver);
    });
}

trait Driver {
    /// Makes a packet available; returns false if there is no room.
    fn send(&mut self) -> bool;
    /// Takes the used buffers, and returns their number.
    fn take(&mut self) -> usize;
    /// Asks for an interrupt; returns false if a buffer has already been used.
    fn ask(&mut self) -> bool;
    fn ask_not(&mut self);
}

impl<S: Side, B: Brand> Driver for vmbell_virtqueue::Driver<(), S, B> {
    fn send(&mut self) -> bool {
        self.add(&[Buffer::new(DATA, 60)], &[], ()).is_ok()
    }

    fn take(&mut self) -> usize {
        std::iter::from_fn(|| self.get_used().unwrap()).count()
    }

    fn ask(&mut self) -> bool {
        self.enable_cb()
    }

    fn ask_not(&mut self) {
        self.disable_cb();
    }
}

/// Serves one chain at a time until an interrupt waits, and returns how many services interrupted without delay.
fn until_one_waits(coalescing: &mut Coalescing) -> u16 {
    let mut at_once = 0;
    while !coalescing.waits(1) {
        at_once += 1;
    }
    at_once
}

#[test]
fn an_interrupt_waits_until_many_chains_were_given_back() {
    let mut coalescing = Coalescing::default();
    assert!((0..MOST).all(|_| coalescing.waits(1)));
    assert!(!coalescing.waits(1));
    assert!(!coalescing.is_waiting());
    assert!(!coalescing.waits(MOST + 1), "in one service");
    assert!(!coalescing.waits(0), "there is none");
    assert!(coalescing.waits(1));
    assert!(coalescing.waits(0), "it still waits");
}

#[test]
fn a_driver_that_needs_the_interrupt_waits_ever_more_seldom() {
    let mut coalescing = Coalescing::default();
    let mut seen = Vec::new();
    for _ in 0..12 {
        seen.push(until_one_waits(&mut coalescing));
        coalescing.end(true);
    }
    assert_eq!(seen, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023]);
}

#[test]
fn a_driver_that_does_not_need_it_any_more_is_trusted_again() {
    let mut coalescing = Coalescing::default();
    for _ in 0..12 {
        until_one_waits(&mut coalescing);
        coalescing.end(true);
    }
    assert_eq!(until_one_waits(&mut coalescing), MOST_AT_ONCE);
    for _ in 0..10 {
        coalescing.end(false);
        assert_eq!(until_one_waits(&mut coalescing), 0);
    }
    coalescing.end(true);
    assert_eq!(until_one_waits(&mut coalescing), 1);
}

#[test]
fn an_interrupt_that_is_still_needed_comes_in_the_next_service() {
    for event_idx in [false, true] {
        let rig = Rig::new(false);
        with_driver(&rig, event_idx, |driver| {
            driver.send();
            assert_eq!(rig.queue.serve_before_nap(), Rest::Nap(LATEST));
            assert_eq!(rig.interrupts(), 0);
            assert_eq!(rig.queue.serve_before_nap(), Rest::Sleep);
            assert_eq!(rig.interrupts(), 1);
            assert_eq!(driver.take(), 1);
            driver.send();
            assert_eq!(rig.queue.serve_before_nap(), Rest::Sleep, "the next one");
            assert_eq!(rig.interrupts(), 2);
        });
    }
}

#[test]
fn a_driver_that_takes_what_was_used_before_that_is_not_interrupted() {
    let rig = Rig::new(false);
    with_driver(&rig, true, |driver| {
        for _ in 0..3 {
            driver.send();
            assert_eq!(rig.queue.serve_before_nap(), Rest::Nap(LATEST));
            assert_eq!(driver.take(), 1);
        }
        rig.settle();
        assert_eq!(rig.interrupts(), 0);
    });
}

#[test]
fn a_thread_that_may_sleep_forever_interrupts_at_once() {
    for serve in [Queue::serve, Queue::serve_before_sleep] {
        let rig = Rig::new(false);
        with_driver(&rig, true, |driver| {
            driver.send();
            assert_eq!(serve(&rig.queue).chains, 1);
            assert_eq!((rig.interrupts(), driver.take()), (1, 1));
            // An interrupt that waits is not lost.
            driver.send();
            assert_eq!(rig.queue.serve_before_nap(), Rest::Nap(LATEST));
            assert_eq!(serve(&rig.queue).chains, 0);
            assert_eq!((rig.interrupts(), driver.take()), (2, 1));
        });
    }
}

#[test]
fn a_driver_that_waits_for_its_chains_is_interrupted_at_once() {
    let rig = Rig::new(true);
    with_driver(&rig, true, |driver| {
        for sent in 1..100 {
            driver.send();
            assert_eq!(rig.queue.serve_before_nap(), Rest::Sleep);
            assert_eq!(rig.interrupts(), sent);
            assert_eq!(driver.take(), 1);
        }
    });
}

#[test]
fn an_interrupt_does_not_outlive_its_ring() {
    let rig = Rig::new(false);
    with_driver(&rig, false, |driver| {
        driver.send();
        assert_eq!(rig.queue.serve_before_nap(), Rest::Nap(LATEST));
        rig.queue.stop();
        assert_eq!(rig.queue.serve_before_nap(), Rest::Sleep);
    });
    with_driver(&rig, false, |_| rig.settle());
    assert_eq!(rig.interrupts(), 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u8),
    Take,
    Ask,
    AskNot,
    /// The driver notifies, or the thread's nap ends.
    Serve,
    /// Another thread serves.
    ServeElsewhere,
    /// The thread serves and naps until it sleeps.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..40_u8).prop_map(Step::Send),
        Just(Step::Take),
        Just(Step::Ask),
        Just(Step::AskNot),
        Just(Step::Serve),
        Just(Step::ServeElsewhere),
        Just(Step::Settle),
    ]
}

proptest! {
    #[test]
    fn no_interrupt_that_was_asked_for_is_lost(
        event_idx in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let rig = Rig::new(false);
        with_driver(&rig, event_idx, |driver| {
            // How many interrupts there were when the driver had taken everything and asked for the next interrupt.
            let mut asked = None;
            let mut sent = 0;
            for step in steps {
                match step {
                    Step::Send(count) => sent += (0..count).take_while(|_| driver.send()).count(),
                    Step::Take => {
                        driver.take();
                        asked = None;
                    }
                    Step::AskNot => {
                        driver.ask_not();
                        asked = None;
                    }
                    Step::Ask => {
                        rig.settle();
                        driver.take();
                        asked = driver.ask().then(|| rig.interrupts());
                        sent = 0;
                    }
                    Step::Serve => _ = rig.queue.serve_before_nap(),
                    Step::ServeElsewhere => _ = rig.queue.serve(),
                    Step::Settle => {
                        rig.settle();
                        if let Some(before) = asked.filter(|_| sent > 0) {
                            assert!(rig.interrupts() > before, "for {sent} packets");
                        }
                    }
                }
            }
        });
    }
}
