//! A queue whose buffers wait for the host, as a network interface has.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::*;
use crate::virtio::Net;
use crate::virtio::net::{Mac, Offloads, Tap};
use kit::wait::await_that;
use vmbell_virtqueue::{Brand, Buffer, Driver, Features, Side, SplitDriver, brand};

const LAYOUTS: [SplitLayout; 2] = [
    SplitLayout::contiguous(0, 8),
    SplitLayout::contiguous(0x2000, 8),
];
const PACKET: [u8; 60] = [7; 60];

/// Waits for the next used buffer, and returns its number of bytes.
fn await_used<T>(driver: &mut Driver<T, impl Side, impl Brand>) -> u32 {
    let mut bytes = 0;
    await_that("a used buffer", || {
        let used = driver.get_used().unwrap();
        bytes = used.as_ref().map_or(0, |used| used.len);
        used.is_some()
    });
    bytes
}

/// Fails if a buffer is used although it must wait.
fn assert_waits<T>(driver: &mut Driver<T, impl Side, impl Brand>) {
    std::thread::sleep(Duration::from_millis(50));
    assert!(driver.get_used().unwrap().is_none());
}

/// A live interface, and the other end of its tap.
fn live(notify: Notify) -> (Pc, UnixDatagram) {
    let (tap, host) = Tap::double();
    let config = VirtioConfig {
        notify,
        ..VirtioConfig::default()
    };
    let mut pc = Pc::with(
        Net::new(tap, Mac::of("tap0"), Offloads::Off),
        QUEUES,
        config,
    );
    pc.negotiate();
    for (queue, layout) in (0..).zip(&LAYOUTS) {
        assert!(pc.set_up(queue, layout, 0xffff));
    }
    pc.go_live();
    (pc, host)
}

/// A buffer waits for a packet, and then a packet waits for a buffer.
fn buffers_and_packets_wait_for_each_other(notify: Notify) {
    let (mut pc, host) = live(notify);
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let features = Features::default();
        let mut driver = SplitDriver::new(&memory, &LAYOUTS[0], features, brand).unwrap();
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify != Notify::Exit);
        assert_waits(&mut driver);
        host.send(&PACKET).unwrap();
        assert_eq!(await_used(&mut driver), 60);
        host.send(&PACKET).unwrap();
        assert_waits(&mut driver);
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify != Notify::Exit);
        assert_eq!(await_used(&mut driver), 60);
    });
}

#[test]
fn buffers_and_packets_wait_for_each_other_with_doorbells() {
    buffers_and_packets_wait_for_each_other(Notify::Doorbell);
}

#[test]
fn buffers_and_packets_wait_for_each_other_without_doorbells() {
    buffers_and_packets_wait_for_each_other(Notify::Exit);
}

#[test]
fn buffers_and_packets_wait_for_each_other_with_a_thread_that_polls() {
    buffers_and_packets_wait_for_each_other(Notify::Poll);
}

#[test]
fn an_interrupt_for_a_packet_that_was_sent_comes_though_nothing_else_happens() {
    let (mut pc, host) = live(Notify::Doorbell);
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let features = Features::default();
        let mut driver = SplitDriver::new(&memory, &LAYOUTS[1], features, brand).unwrap();
        for _ in 0..3 {
            driver.add(&[Buffer::new(0x8000, 60)], &[], ()).unwrap();
            assert!(pc.store(NOTIFY + 4, 2, 1));
            await_that("the interrupt", || pc.load(ISR, 1) == 1);
            assert_eq!(await_used(&mut driver), 0);
            assert_eq!(host.recv(&mut [0; 100]).unwrap(), 60);
        }
    });
}

#[test]
fn a_thread_that_polls_serves_both_directions_and_misses_no_packet() {
    let (mut pc, host) = live(Notify::Poll);
    let memory = pc.memory.clone();
    let memory = &memory;
    let features = Features::default();
    host.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    brand::scoped(|brand| {
        let mut receive = SplitDriver::new(&memory, &LAYOUTS[0], features, brand).unwrap();
        brand::scoped(|brand| {
            let mut send = SplitDriver::new(&memory, &LAYOUTS[1], features, brand).unwrap();
            for trip in 0..300 {
                receive.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
                if receive.kick_prepare() {
                    assert!(pc.store(NOTIFY, 2, 0));
                }
                host.send(&PACKET).unwrap();
                assert_eq!(await_used(&mut receive), 60);
                send.add(&[Buffer::new(0x8000, 60)], &[], ()).unwrap();
                if send.kick_prepare() {
                    assert!(pc.store(NOTIFY + 4, 2, 1));
                }
                assert_eq!(host.recv(&mut [0; 100]).unwrap(), 60);
                await_used(&mut send);
                // Some packets come while the thread polls, and some after it has gone to sleep.
                if trip % 30 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
    });
    assert_eq!(pc.errors(), 0);
}
