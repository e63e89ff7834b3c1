//! A driver and a device on a core each, both polling.

#![allow(unsafe_code)]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use virtio_queue::QueueT;
use vmbell_bench::affinity;
use vmbell_virtqueue::{
    Brand, Buffer, Chain, DeviceQueue, Driver, Features, PackedDevice, PackedDriver, PackedLayout,
    Side, SplitDevice, SplitDriver, SplitLayout, brand,
};

use crate::peers::{self, BASE, BUFFERS, SIZE};

const LEN: usize = 64;

/// Runs the device on a thread until the driver is done, and returns the driver's time. Panics where
/// there are not two CPUs: threads that take turns on one CPU would measure the scheduler.
fn race(device: impl FnOnce(&AtomicBool) + Send, driver: impl FnOnce()) -> Duration {
    let cpus = affinity::default_pair(&affinity::allowed_cpus().unwrap());
    let [driver_cpu, device_cpu] = cpus[..] else {
        panic!("two CPUs are needed, allowed are {cpus:?}");
    };
    let _pinned = affinity::Pinned::to(&[driver_cpu]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            affinity::pin(&[device_cpu]).unwrap();
            device(&done);
        });
        let start = Instant::now();
        driver();
        let time = start.elapsed();
        done.store(true, Ordering::Relaxed);
        time
    })
}

fn drive(mut driver: Driver<u64, impl Side, impl Brand>, buffers: u64) {
    let (mut started, mut done) = (0, 0);
    driver.disable_cb();
    while done < buffers {
        while started < buffers && started - done < SIZE as u64 {
            let at = BUFFERS + started % SIZE as u64 * LEN as u64;
            driver
                .add(&[Buffer::new(at, LEN as u32)], &[], started)
                .unwrap();
            started += 1;
        }
        while driver.get_used().unwrap().is_some() {
            done += 1;
        }
        std::hint::spin_loop();
    }
}

fn serve(mut device: impl DeviceQueue, done: &AtomicBool) {
    let mut chain = Chain::with_capacity(SIZE);
    device.disable_notification();
    while !done.load(Ordering::Relaxed) {
        while let Some(head) = device.pop(&mut chain).unwrap() {
            device.add_used(head, 0).unwrap();
        }
        std::hint::spin_loop();
    }
}

pub fn split(buffers: u64) -> Duration {
    let memory = peers::guest().memory;
    let (layout, features) = (
        SplitLayout::contiguous(BASE, SIZE as u16),
        Features::default(),
    );
    brand::scoped(|brand| {
        let driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
        let device = SplitDevice::new(&memory, &layout, features).unwrap();
        race(|done| serve(device, done), || drive(driver, buffers))
    })
}

pub fn packed(buffers: u64) -> Duration {
    let memory = peers::guest().memory;
    let (layout, features) = (
        PackedLayout::contiguous(BASE, SIZE as u16),
        Features::default(),
    );
    brand::scoped(|brand| {
        let driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
        let device = PackedDevice::new(&memory, &layout, features).unwrap();
        race(|done| serve(device, done), || drive(driver, buffers))
    })
}

pub fn peers(buffers: u64) -> Duration {
    let guest = peers::guest();
    let (mut driver, addresses) = peers::peer_driver(false, false);
    let mut device = peers::peer_device(&addresses, false);
    let memory = guest.memory.clone();
    driver.set_dev_notify(false);
    let serve = move |done: &AtomicBool| {
        device.disable_notification(&*memory).unwrap();
        while !done.load(Ordering::Relaxed) {
            while let Some(mut chain) = device.pop_descriptor_chain(&*memory) {
                std::hint::black_box(chain.next().unwrap());
                device.add_used(&*memory, chain.head_index(), 0).unwrap();
            }
            std::hint::spin_loop();
        }
    };
    let drive = || {
        let (mut started, mut done) = (0, 0);
        // The buffer that belongs to a token; both sides keep the order.
        let buffer = |i: u64| guest.bytes(BUFFERS + i % SIZE as u64 * LEN as u64, LEN);
        while done < buffers {
            while started < buffers && started - done < SIZE as u64 {
                // SAFETY: the buffer is guest memory that lives as long as the queue.
                unsafe { driver.add(&[buffer(started)], &mut []) }.unwrap();
                started += 1;
            }
            while let Some(token) = driver.peek_used() {
                // SAFETY: the device returns buffers in the order of adding.
                unsafe { driver.pop_used(token, &[buffer(done)], &mut []) }.unwrap();
                done += 1;
            }
            std::hint::spin_loop();
        }
    };
    race(serve, drive)
}
