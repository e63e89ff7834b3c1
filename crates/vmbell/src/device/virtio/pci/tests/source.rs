//! A queue whose buffers wait for the host: a network interface's.

use std::time::{Duration, Instant};

use super::*;
use crate::device::virtio::Net;
use crate::device::virtio::net::{Mac, Offloads, Tap};
use crate::virtqueue::{Buffer, DriverQueue, Features, SplitDriver, brand};

const LAYOUTS: [SplitLayout; 2] = [
    SplitLayout::contiguous(0, 8),
    SplitLayout::contiguous(0x2000, 8),
];
const PACKET: [u8; 60] = [7; 60];

/// The bytes of the next used buffer, if there is one within the time.
fn used<Q: DriverQueue>(driver: &mut Q, limit: Duration) -> Option<u32> {
    let end = Instant::now() + limit;
    loop {
        if let Some(used) = driver.get_used().unwrap() {
            return Some(used.len);
        }
        if Instant::now() > end {
            return None;
        }
        std::thread::yield_now();
    }
}

/// A buffer waits for a packet, and then a packet for a buffer.
fn buffers_and_packets_wait_for_each_other(notify: Notify) {
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
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let features = Features::default();
        let mut driver = SplitDriver::new(&memory, &LAYOUTS[0], features, brand).unwrap();
        let (short, long) = (Duration::from_millis(50), Duration::from_secs(20));
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify == Notify::Doorbell);
        assert_eq!(used(&mut driver, short), None);
        host.send(&PACKET).unwrap();
        assert_eq!(used(&mut driver, long), Some(60));
        host.send(&PACKET).unwrap();
        assert_eq!(used(&mut driver, short), None);
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify == Notify::Doorbell);
        assert_eq!(used(&mut driver, long), Some(60));
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
