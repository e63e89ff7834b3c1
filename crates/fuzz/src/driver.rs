//! A driver with a device that writes anything. It never panics, gets back only what it sent, and a broken queue stays
//! broken until its reset.

use std::collections::HashMap;

use vmbell_virtqueue::{
    Brand, Chain, DeviceQueue, Driver, Opaque, PackedDevice, PackedDriver, Side, SplitDevice,
    SplitDriver, Status, Token, brand,
};

use super::input::{self, Input, Memory, TABLES};

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut input = Input(data);
    let (memory, kind, features) = (input::memory(), input.byte(), input.features());
    brand::scoped(|brand| {
        if kind & 1 == 0 {
            let layout = input::split_layout(kind >> 1);
            let mut driver = SplitDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            let ring = driver.ring().clone();
            let take = || SplitDevice::over(ring.clone(), features);
            run(driver, take, &memory, layout.end(), input);
        } else {
            let layout = input::packed_layout(kind >> 1);
            let mut driver = PackedDriver::new(&memory, &layout, features, brand).unwrap();
            if features.indirect {
                driver = driver.with_indirect_tables(TABLES, 4).unwrap();
            }
            let ring = driver.ring().clone();
            let take = || PackedDevice::over(ring.clone(), features);
            run(driver, take, &memory, layout.end(), input);
        }
    });
}

fn run<S: Side, B: Brand, V: DeviceQueue>(
    mut driver: Driver<u64, S, B>,
    take: impl Fn() -> V,
    memory: &Memory,
    end: u64,
    mut input: Input<'_>,
) {
    let size = driver.free();
    let mut device = take();
    let mut chain = Chain::with_capacity(64);
    let mut held = Vec::new();
    let mut in_flight = HashMap::new();
    let mut next = 0_u64;
    let mut opaque = driver.enable_cb_prepare::<Opaque<_>>();
    let mut token = driver.enable_cb_prepare::<Token<_>>();
    while input.more() {
        match input.byte() % 12 {
            0 | 1 => {
                let (readable, writable) = (input.buffers(), input.buffers());
                if driver.add(&readable, &writable, next).is_ok() {
                    let len: u32 = writable.iter().map(|buffer| buffer.len).sum();
                    in_flight.insert(next, len);
                }
                next += 1;
            }
            2 | 3 => input.scribble(memory, end),
            // A correct device, in any order of buffers, so that the queue makes progress.
            4 => {
                let choice = usize::from(input.byte());
                if choice & 1 == 0 {
                    held.extend(device.pop(&mut chain).ok().flatten());
                } else if !held.is_empty() {
                    let head = held.swap_remove((choice >> 1) % held.len());
                    let len = head.writable_len();
                    let _ = device.add_used(head, len);
                }
            }
            5 | 6 => {
                let broken = driver.broken();
                match driver.get_used() {
                    Ok(Some(used)) => {
                        let writable = in_flight.remove(&used.data).expect("it was sent, once");
                        assert!(used.len <= writable && broken.is_none());
                    }
                    Ok(None) => assert!(broken.is_none()),
                    Err(error) => assert_eq!(driver.broken(), Some(error)),
                }
            }
            7 => {
                let _ = driver.kick_prepare();
            }
            8 => driver.disable_cb(),
            9 => {
                let _ = driver.enable_cb_delayed();
                opaque = driver.enable_cb_prepare::<Opaque<_>>();
                token = driver.enable_cb_prepare::<Token<_>>();
            }
            10 => {
                let (short, long) = (driver.poll(opaque), driver.poll(token));
                assert!(driver.broken().is_none() || !short && !long);
            }
            _ => {
                while let Some(data) = driver.detach_unused() {
                    assert!(in_flight.remove(&data).is_some());
                }
                assert!(in_flight.is_empty(), "nothing that was sent is lost");
                driver.reset();
                held.clear();
                assert_eq!(driver.free(), size);
                let _ = driver.use_wrap_counter(Status(input.byte()));
                device = take();
            }
        }
        assert!(driver.free() <= size);
    }
}
