//! Buffers that come back in any order, in order, and several at once.

#![allow(clippy::cast_possible_truncation)]

use super::*;

struct OutOfOrder;

impl Test for OutOfOrder {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let size = driver.free();
        let mut chain = Chain::with_capacity(8);
        let mut held = Vec::new();
        let mut random = 1_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 33) as usize % below
        };
        let mut next = 0;
        for _ in 0..if cfg!(miri) { 20 } else { 1_000 } {
            // Offers as many buffers as fit next to those that the device has kept.
            loop {
                let pieces = [Buffer::new(BUFFERS + 8 * (next % 1000), 1); 3];
                let count = 1 + draw(3);
                if driver.add(&pieces[..count], &[], next).is_err() {
                    break;
                }
                let head = device.pop(&mut chain).unwrap().unwrap();
                assert_eq!(chain.readable(), &pieces[..count], "{about}");
                held.push((head, next));
                next += 1;
            }
            for _ in 0..draw(held.len() + 1) {
                let (head, data) = held.swap_remove(draw(held.len()));
                device.add_used(head, 0).unwrap();
                assert_eq!(driver.get_used().unwrap().unwrap().data, data, "{about}");
            }
        }
        for (head, data) in held {
            device.add_used(head, 0).unwrap();
            assert_eq!(driver.get_used().unwrap().unwrap().data, data, "{about}");
        }
        assert_eq!((driver.free(), driver.detach_unused()), (size, None));
    }
}

#[test]
fn buffers_come_back_in_any_order() {
    for features in [PLAIN, EVENT_IDX, INDIRECT] {
        for size in [1, 2, 8, 64] {
            split(size, features, &OutOfOrder);
        }
        for size in [1, 3, 7, 64] {
            packed(size, features, &OutOfOrder);
        }
    }
}

struct InOrder;

impl Test for InOrder {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(8);
        for _ in 0..20 {
            // The chains are written full, full, partly, full, full.
            for data in 0..5 {
                let pieces = [Buffer::new(BUFFERS, 4); 2];
                driver
                    .add(&[], &pieces[..1 + data as usize % 2], data)
                    .unwrap();
            }
            let mut batch = Vec::new();
            while let Some(head) = device.pop(&mut chain).unwrap() {
                let len = if batch.len() == 2 {
                    1
                } else {
                    head.writable_len()
                };
                batch.push((head, len));
            }
            device.add_used_batch(batch).unwrap();
            for data in 0..5 {
                let used = driver.get_used().unwrap().unwrap();
                let whole = 4 * (1 + data as u32 % 2);
                let len = if data == 2 { 1 } else { whole };
                assert_eq!((used.data, used.len), (data, len), "{about}");
            }
            assert_eq!(driver.get_used().unwrap(), None, "{about}");
        }
        // Giving back a chain that is not the oldest is refused, and the queue is not broken.
        offer(&mut driver, 1);
        offer(&mut driver, 2);
        let one = device.pop(&mut chain).unwrap().unwrap();
        let two = device.pop(&mut chain).unwrap().unwrap();
        let id = two.id();
        assert_eq!(device.add_used(two, 0), Err(UsedError::OutOfOrder { id }));
        device.add_used(one, 0).unwrap();
        assert_eq!(driver.get_used().unwrap().unwrap().data, 1);
    }
}

#[test]
fn in_order_batches_come_back_whole() {
    split(8, IN_ORDER, &InOrder);
    packed(8, IN_ORDER, &InOrder);
    packed(11, IN_ORDER, &InOrder);
}

#[test]
fn in_order_batch_is_one_used_element() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 8));
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, IN_ORDER, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, IN_ORDER).unwrap();
        let mut chain = Chain::with_capacity(8);
        for data in 0..3 {
            offer(&mut driver, data);
        }
        let heads: Vec<_> = (0..3)
            .map(|_| device.pop(&mut chain).unwrap().unwrap())
            .collect();
        device
            .add_used_batch(heads.into_iter().map(|head| (head, 0)))
            .unwrap();
        assert_eq!(memory.get16(layout.used + 4), 2, "the last covers all");
        assert_eq!(memory.get16(layout.used + 2), 3);
        let data = [(); 3].map(|()| driver.get_used().unwrap().unwrap().data);
        assert_eq!(data, [0, 1, 2]);
    });
}

struct Batches;

impl Test for Batches {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(8);
        for round in 0..50_u64 {
            let count = round % 5;
            for data in 0..count {
                offer(&mut driver, data);
            }
            let heads: Vec<_> = std::iter::from_fn(|| device.pop(&mut chain).unwrap()).collect();
            let token = driver.enable_cb_prepare::<Token<_>>();
            device
                .add_used_batch(heads.into_iter().map(|head| (head, 0)))
                .unwrap();
            assert_eq!(driver.poll(token), count > 0, "{about}");
            for data in 0..count {
                assert_eq!(driver.get_used().unwrap().unwrap().data, data, "{about}");
            }
            assert_eq!(driver.get_used().unwrap(), None, "{about}");
        }
    }
}

#[test]
fn batches_come_back_at_once() {
    everywhere(&[4, 8], &Batches);
    packed(5, PLAIN, &Batches);
}
