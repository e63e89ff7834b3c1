//! Our driver with the virtio-queue crate's device, and the virtio-drivers crate's driver with our
//! device, in one process and beyond the point where 16-bit indices wrap.

#![allow(
    unsafe_code,
    clippy::cast_possible_truncation,
    clippy::tests_outside_test_module,
    clippy::unwrap_used
)]

mod peers;

use std::sync::Arc;

use peers::{Addresses, BASE, BUFFERS, SIZE, guest, peer_device, peer_driver};
use virtio_queue::QueueT;
use vm_memory::GuestMemoryMmap;
use vmbell_virtqueue::{
    Brand, Buffer, Chain, DeviceQueue, Features, SplitDevice, SplitDriver, SplitLayout, Token,
    brand,
};

const ROUNDS: u64 = 70_000;
const LAYOUT: SplitLayout = SplitLayout::contiguous(BASE, SIZE as u16);
const TABLES: u64 = BASE + 0x2_0000;

fn variants() -> impl Iterator<Item = Features> {
    (0..4).map(|bits| {
        let features = Features::default().with_event_idx(bits & 1 != 0);
        features.with_indirect(bits & 2 != 0)
    })
}

fn our_driver<B: Brand>(
    memory: &Arc<GuestMemoryMmap>,
    features: Features,
    brand: B,
) -> SplitDriver<u64, Arc<GuestMemoryMmap>, B> {
    let driver = SplitDriver::new(memory, &LAYOUT, features, brand).unwrap();
    if features.indirect {
        return driver.with_indirect_tables(TABLES, 4).unwrap();
    }
    driver
}

#[test]
fn our_driver_and_the_virtio_queue_device_agree() {
    for features in variants() {
        let memory = guest().memory;
        let addresses = Addresses {
            size: SIZE as u32,
            descriptors: LAYOUT.descriptors,
            avail: LAYOUT.avail,
            used: LAYOUT.used,
        };
        let mut device = peer_device(&addresses, features.event_idx);
        brand::scoped(|brand| {
            let mut driver = our_driver(&memory, features, brand);
            let mut token = driver.enable_cb_prepare::<Token<_>>();
            for round in 0..ROUNDS {
                let readable = [Buffer::new(BUFFERS, 16), Buffer::new(BUFFERS + 64, 8)];
                let writable = [Buffer::new(BUFFERS + 128, 32)];
                let count = 1 + round % 2;
                driver
                    .add(&readable[..count as usize], &writable, round)
                    .unwrap();
                assert!(driver.kick_prepare(), "{features:?}");
                let mut chain = device.pop_descriptor_chain(&*memory).unwrap();
                let buffers: Vec<_> = chain.by_ref().collect();
                assert_eq!(buffers.len() as u64, count + 1);
                let last = buffers.last().unwrap();
                assert_eq!((last.addr().0, last.len()), (BUFFERS + 128, 32));
                assert!(last.is_write_only() && !buffers[0].is_write_only());
                assert!(!driver.poll(token), "{features:?}");
                device.add_used(&*memory, chain.head_index(), 7).unwrap();
                assert!(device.needs_notification(&*memory).unwrap(), "{features:?}");
                assert!(!device.enable_notification(&*memory).unwrap());
                assert!(driver.poll(token), "{features:?}");
                let used = driver.get_used().unwrap().unwrap();
                assert_eq!((used.data, used.len), (round, 7));
                token = driver.enable_cb_prepare::<Token<_>>();
            }
            assert_eq!(driver.free(), SIZE as u16);
        });
    }
}

#[test]
fn the_virtio_queue_device_is_silent_while_our_driver_polls() {
    let memory = guest().memory;
    let addresses = Addresses {
        size: SIZE as u32,
        descriptors: LAYOUT.descriptors,
        avail: LAYOUT.avail,
        used: LAYOUT.used,
    };
    let features = Features::default().with_event_idx(true);
    let mut device = peer_device(&addresses, true);
    brand::scoped(|brand| {
        let mut driver = our_driver(&memory, features, brand);
        driver.disable_cb();
        let mut calls = 0;
        for round in 0..ROUNDS {
            driver.add(&[Buffer::new(BUFFERS, 16)], &[], round).unwrap();
            driver.kick_prepare();
            let chain = device.pop_descriptor_chain(&*memory).unwrap();
            device.add_used(&*memory, chain.head_index(), 0).unwrap();
            calls += u64::from(device.needs_notification(&*memory).unwrap());
            driver.get_used().unwrap().unwrap();
        }
        assert!(calls <= ROUNDS / 65_536 + 1, "{calls} calls");
    });
}

#[test]
fn the_virtio_drivers_driver_and_our_device_agree() {
    for features in variants() {
        let guest = guest();
        let (mut driver, addresses) = peer_driver(features.event_idx, features.indirect);
        let layout = SplitLayout {
            size: addresses.size as u16,
            descriptors: addresses.descriptors,
            avail: addresses.avail,
            used: addresses.used,
        };
        let mut device = SplitDevice::new(&guest.memory, &layout, features).unwrap();
        let mut chain = Chain::with_capacity(SIZE);
        let readable = guest.bytes(BUFFERS, 16);
        for _ in 0..ROUNDS {
            let writable = guest.bytes(BUFFERS + 128, 32);
            // SAFETY: both buffers are guest memory, which lives as long as the queue.
            let token = unsafe { driver.add(&[readable], &mut [writable]) }.unwrap();
            assert!(driver.should_notify(), "{features:?}");
            let head = device.pop(&mut chain).unwrap().unwrap();
            assert_eq!(chain.readable(), [Buffer::new(BUFFERS, 16)], "{features:?}");
            assert_eq!(chain.writable(), [Buffer::new(BUFFERS + 128, 32)]);
            device.add_used(head, 5).unwrap();
            device.needs_notification();
            assert!(!device.enable_notification());
            assert_eq!(driver.peek_used(), Some(token));
            let writable = guest.bytes(BUFFERS + 128, 32);
            // SAFETY: these are the buffers for which `add` returned the token.
            let used = unsafe { driver.pop_used(token, &[readable], &mut [writable]) };
            assert_eq!(used.unwrap(), 5);
        }
    }
}

#[test]
fn the_virtio_drivers_driver_is_silent_while_our_device_polls() {
    for event_idx in [false, true] {
        let features = Features::default().with_event_idx(event_idx);
        let guest = guest();
        let (mut driver, addresses) = peer_driver(event_idx, false);
        let layout = SplitLayout {
            size: addresses.size as u16,
            descriptors: addresses.descriptors,
            avail: addresses.avail,
            used: addresses.used,
        };
        let mut device = SplitDevice::new(&guest.memory, &layout, features).unwrap();
        let mut chain = Chain::with_capacity(SIZE);
        device.disable_notification();
        let mut kicks = 0;
        let readable = guest.bytes(BUFFERS, 16);
        for _ in 0..1_000 {
            // SAFETY: the buffer is guest memory, which lives as long as the queue.
            let token = unsafe { driver.add(&[readable], &mut []) }.unwrap();
            kicks += u32::from(driver.should_notify());
            let head = device.pop(&mut chain).unwrap().unwrap();
            device.add_used(head, 0).unwrap();
            // SAFETY: this is the buffer for which `add` returned the token.
            unsafe { driver.pop_used(token, &[readable], &mut []) }.unwrap();
        }
        assert_eq!(kicks, 0, "{features:?}");
    }
}
