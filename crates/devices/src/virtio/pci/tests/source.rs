//! A queue whose buffers wait for the host: a network interface's.

use std::time::Duration;

use super::*;
use crate::virtio::Net;
use crate::virtio::net::{Mac, Offloads, Tap};
use crate::wait::await_that;
use vmbell::virtqueue::{Buffer, DriverQueue, Features, SplitDriver, brand};

const LAYOUTS: [SplitLayout; 2] = [
    SplitLayout::contiguous(0, 8),
    SplitLayout::contiguous(0x2000, 8),
];
const PACKET: [u8; 60] = [7; 60];

/// Waits for the next used buffer, and gives its bytes.
fn await_used<Q: DriverQueue>(driver: &mut Q) -> u32 {
    let mut bytes = 0;
    await_that("a used buffer", || {
        let used = driver.get_used().unwrap();
        bytes = used.as_ref().map_or(0, |used| used.len);
        used.is_some()
    });
    bytes
}

/// Fails if a buffer is used although it has to wait.
fn assert_waits<Q: DriverQueue>(driver: &mut Q) {
    std::thread::sleep(Duration::from_millis(50));
    assert!(driver.get_used().unwrap().is_none());
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
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify == Notify::Doorbell);
        assert_waits(&mut driver);
        host.send(&PACKET).unwrap();
        assert_eq!(await_used(&mut driver), 60);
        host.send(&PACKET).unwrap();
        assert_waits(&mut driver);
        driver.add(&[], &[Buffer::new(0x8000, 1600)], ()).unwrap();
        assert_eq!(pc.store(NOTIFY, 2, 0), notify == Notify::Doorbell);
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
