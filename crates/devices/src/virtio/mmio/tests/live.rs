use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use vm_memory::Bytes;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::*;
use crate::virtio::queue::Then;
use vmbell_virtqueue::{Brand, Buffer, Driver, Features, Side, SplitDriver, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);
const REQUEST: u64 = 0x4000;
const ANSWER: u64 = 0x5000;

/// A live device with queue 0, and a driver for it.
fn with_driver<R>(device: &Device, body: impl FnOnce(&mut dyn DriverQueueOf) -> R) -> R {
    brand::scoped(|brand| {
        let memory = &device.memory;
        device.negotiate(0);
        let mut driver = SplitDriver::new(&memory, &LAYOUT, Features::default(), brand).unwrap();
        assert!(device.set_up(0, 8, &LAYOUT));
        device.go_live();
        body(&mut driver)
    })
}

/// What the tests need from a driver.
trait DriverQueueOf {
    fn send(&mut self, readable: &[Buffer], writable: &[Buffer]) -> bool;
    fn take(&mut self) -> Option<u32>;
}

impl<S: Side, B: Brand> DriverQueueOf for Driver<(), S, B> {
    fn send(&mut self, readable: &[Buffer], writable: &[Buffer]) -> bool {
        self.add(readable, writable, ()).unwrap();
        self.kick_prepare()
    }

    fn take(&mut self) -> Option<u32> {
        self.get_used().unwrap().map(|used| used.len)
    }
}

#[test]
fn a_request_comes_back_inverted_whatever_its_pieces() {
    let device = Device::new(Notify::Exit);
    let request: Vec<u8> = (0..=250).cycle().take(1000).collect();
    device
        .memory
        .write_slice(&request, GuestAddress(REQUEST))
        .unwrap();
    with_driver(&device, |driver| {
        let readable = [
            Buffer::new(REQUEST, 3),
            Buffer::new(REQUEST + 3, 0),
            Buffer::new(REQUEST + 3, 997),
        ];
        let writable = [Buffer::new(ANSWER, 600), Buffer::new(ANSWER + 600, 500)];
        assert!(
            driver.send(&readable, &writable),
            "the device wants to know"
        );
        assert_eq!(driver.take(), None);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(driver.take(), Some(1000));
    });
    let mut answer = vec![0; 1000];
    device
        .memory
        .read_slice(&mut answer, GuestAddress(ANSWER))
        .unwrap();
    assert!(answer.iter().zip(&request).all(|(a, r)| *a == !r));
}

#[test]
fn an_answer_ends_with_the_shorter_part() {
    let device = Device::new(Notify::Exit);
    with_driver(&device, |driver| {
        for (readable, writable) in [(10, 20), (20, 10)] {
            driver.send(
                &[Buffer::new(REQUEST, readable)],
                &[Buffer::new(ANSWER, writable)],
            );
            device.write(register::QUEUE_NOTIFY, 0);
            assert_eq!(driver.take(), Some(10));
        }
        driver.send(&[Buffer::new(REQUEST, 8)], &[]);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(driver.take(), Some(0));
    });
}

#[test]
fn an_answer_has_64_kib_at_most() {
    let device = Device::new(Notify::Exit);
    with_driver(&device, |driver| {
        let half = Buffer::new(0x8000, 0x8000);
        driver.send(&[half; 4], &[half; 4]);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(driver.take(), Some(0x1_0000));
    });
}

#[test]
fn a_used_buffer_interrupts_until_it_is_acknowledged() {
    let trigger = EventFd::new(EFD_NONBLOCK).unwrap();
    let interrupt = Interrupt::new(Box::new(trigger.try_clone().unwrap()));
    let device = Device::with(Notify::Exit, interrupt);
    with_driver(&device, |driver| {
        driver.send(&[Buffer::new(REQUEST, 1)], &[]);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(trigger.read().unwrap(), 1);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 1);
        device.write(register::INTERRUPT_ACK, 2);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 1);
        device.write(register::INTERRUPT_ACK, 1);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 0);
        assert!(trigger.read().is_err(), "once");
    });
}

#[test]
fn notifying_a_queue_that_is_not_there_does_nothing() {
    let device = Device::new(Notify::Exit);
    with_driver(&device, |driver| {
        driver.send(&[Buffer::new(REQUEST, 1)], &[]);
        for queue in [1, 2, 0x1_0000, u32::MAX] {
            device.write(register::QUEUE_NOTIFY, queue);
        }
        assert_eq!(driver.take(), None);
        assert!(device.transport.take_refusal().is_none());
    });
}

#[test]
fn nothing_is_served_before_driver_ok() {
    let device = Device::new(Notify::Exit);
    brand::scoped(|brand| {
        device.negotiate(0);
        let memory = &device.memory;
        let mut driver = SplitDriver::new(&memory, &LAYOUT, Features::default(), brand).unwrap();
        assert!(device.set_up(0, 8, &LAYOUT));
        driver.add(&[Buffer::new(REQUEST, 1)], &[], ()).unwrap();
        device.write(register::QUEUE_NOTIFY, 0);
        assert!(driver.get_used().unwrap().is_none());
        device.go_live();
        device.write(register::QUEUE_NOTIFY, 0);
        assert!(driver.get_used().unwrap().is_some());
    });
}

#[test]
fn a_polled_queue_wants_no_notifications() {
    let device = Device::new(Notify::Never);
    with_driver(&device, |driver| {
        assert!(!driver.send(&[Buffer::new(REQUEST, 1)], &[]));
        let queue = Arc::clone(&device.transport.queues()[0]);
        assert_eq!(queue.serve().chains, 1);
        assert_eq!(driver.take(), Some(0));
        assert!(!driver.send(&[Buffer::new(REQUEST, 1)], &[]));
    });
}

/// Serves a driver's first chain, and returns how often the thread waited for more. The driver makes a second chain
/// available during the first wait, and does not notify if the device does not want notifications.
fn serve_with_waits(avail_flags: u16) -> (Served, u32) {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    assert!(device.set_up(0, 8, &LAYOUT));
    device.go_live();
    let write = |address, value: u16| {
        let written = device.memory.write_obj(value, GuestAddress(address));
        written.unwrap();
    };
    write(LAYOUT.avail, avail_flags);
    write(LAYOUT.avail + 2, 1);
    let waits = Cell::new(0);
    let wait = || {
        waits.set(waits.get() + 1);
        let flags: u16 = device.memory.read_obj(GuestAddress(LAYOUT.used)).unwrap();
        assert_eq!(flags, 1, "the driver need not notify");
        write(LAYOUT.avail + 2, 2);
    };
    let served = device.transport.queues()[0].serve_then(&Then::Sleep {
        said: None,
        wait: &wait,
        nap: false,
    });
    (served, waits.get())
}

#[test]
fn a_thread_that_sleeps_next_waits_for_a_driver_that_polls() {
    let (served, waits) = serve_with_waits(1);
    assert_eq!((served.chains, served.more), (2, false));
    // Waits once after each chain, and not again after a wait in which no chain came.
    assert_eq!(waits, 2);
}

#[test]
fn a_thread_that_sleeps_next_does_not_wait_for_a_driver_that_wants_an_interrupt() {
    let (served, waits) = serve_with_waits(0);
    assert_eq!((served.chains, served.more), (1, false));
    assert_eq!(waits, 0);
}

#[test]
fn a_thread_that_was_told_of_a_chain_looks_for_it_again_but_not_forever() {
    let device = Device::new(Notify::Exit);
    let queue = &device.transport.queues()[0];
    let serve = |said| {
        let wait = &|| {};
        queue.serve_then(&Then::Sleep {
            said,
            wait,
            nap: false,
        })
    };
    let looks = |said| {
        let mut tries = 0..10_000;
        tries.position(|_| !serve(said).more)
    };
    with_driver(&device, |driver| {
        for nothing_said in [None, Some(0), Some(u16::MAX)] {
            assert_eq!(looks(nothing_said), Some(0));
        }
        let first = looks(Some(1));
        assert!(first > Some(0), "{first:?}");
        assert_eq!(looks(Some(1)), Some(0), "until a chain comes");
        driver.send(&[Buffer::new(REQUEST, 4)], &[]);
        let served = serve(Some(1));
        assert_eq!((served.chains, served.more), (1, false));
        assert_eq!(looks(Some(1)), Some(0), "it was taken");
        assert_eq!(looks(Some(2)), first);
    });
}

#[test]
fn a_driver_need_not_notify_a_thread_that_polls_until_it_sleeps() {
    let device = Device::new(Notify::Exit);
    let queue = &device.transport.queues()[0];
    with_driver(&device, |driver| {
        let request = [Buffer::new(REQUEST, 4)];
        assert!(driver.send(&request, &[]));
        for _ in 0..20 {
            let served = queue.serve_before_poll();
            assert_eq!((served.chains, served.more), (1, false));
            assert!(driver.take().is_some());
            assert!(!driver.send(&request, &[]), "the thread polls");
        }
        assert_eq!(queue.serve_before_sleep().chains, 1);
        assert!(driver.send(&request, &[]), "the thread sleeps");
    });
}

#[test]
fn after_a_reset_the_ring_is_not_looked_at() {
    let device = Device::new(Notify::Exit);
    with_driver(&device, |driver| {
        driver.send(&[Buffer::new(REQUEST, 1)], &[]);
        device.write(register::STATUS, 0);
        device.write(register::QUEUE_NOTIFY, 0);
        let served = device.transport.queues()[0].serve();
        assert_eq!(served, Served::default());
        assert_eq!(driver.take(), None);
        assert_eq!(device.read(register::INTERRUPT_STATUS), 0);
    });
}

#[test]
fn a_queue_that_is_made_unready_is_not_served() {
    let device = Device::new(Notify::Exit);
    with_driver(&device, |driver| {
        driver.send(&[Buffer::new(REQUEST, 1)], &[]);
        device.write(register::QUEUE_SEL, 0);
        device.write(register::QUEUE_READY, 0);
        assert_eq!(device.read(register::QUEUE_READY), 0);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(driver.take(), None);
    });
}

#[test]
fn resets_while_another_thread_serves_neither_hang_nor_serve_on() {
    let device = Device::new(Notify::Never);
    let (queue, stop) = (
        Arc::clone(&device.transport.queues()[0]),
        AtomicBool::new(false),
    );
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut served = 0;
            while !stop.load(Ordering::Relaxed) {
                served += queue.serve().chains;
            }
            served
        });
        let mut taken = 0;
        for _ in 0..200 {
            with_driver(&device, |driver| {
                driver.send(&[Buffer::new(REQUEST, 4)], &[Buffer::new(ANSWER, 4)]);
                while driver.take().is_none() {
                    std::thread::yield_now();
                }
                taken += 1;
                driver.send(&[Buffer::new(REQUEST, 4)], &[Buffer::new(ANSWER, 4)]);
                device.write(register::STATUS, 0);
                // No chain is served after the reset.
                let used: u16 = device
                    .memory
                    .read_obj(GuestAddress(LAYOUT.used + 2))
                    .unwrap();
                std::thread::yield_now();
                let later: u16 = device
                    .memory
                    .read_obj(GuestAddress(LAYOUT.used + 2))
                    .unwrap();
                assert_eq!(used, later);
            });
        }
        stop.store(true, Ordering::Relaxed);
        assert!(server.join().unwrap() >= taken);
    });
}
