//! Buffers of every shape go round, on every kind of queue.

#![allow(clippy::cast_possible_truncation)]

use super::*;

struct Shapes;

impl Test for Shapes {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let size = usize::from(driver.free());
        let mut chain = Chain::with_capacity(size);
        let pieces: Vec<Buffer> = (0..size as u64)
            .map(|i| Buffer::new(BUFFERS + 32 * i, 1 + (i % 7) as u32))
            .collect();
        for round in 0..10 * size {
            let count = 1 + round % size.min(8);
            let readable = round % (count + 1);
            let (readable, writable) = pieces[..count].split_at(readable);
            driver.add(readable, writable, round as u64).unwrap();
            assert_ne!(device.next_avail(), driver.next_avail(), "{about}");
            let head = device.pop(&mut chain).unwrap().unwrap();
            assert_eq!(device.next_avail(), driver.next_avail(), "{about}");
            assert_eq!(chain.readable(), readable, "{about}");
            assert_eq!(chain.writable(), writable, "{about}");
            let sum = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.len).sum::<u32>();
            assert_eq!(chain.readable_len(), sum(readable));
            assert_eq!(head.writable_len(), sum(writable));
            let len = head.writable_len() / 2;
            device.add_used(head, len).unwrap();
            let used = driver.get_used().unwrap().unwrap();
            assert_eq!((used.data, used.len), (round as u64, len), "{about}");
            assert_eq!(usize::from(driver.free()), size, "{about}");
        }
    }
}

#[test]
fn every_shape_of_buffer_arrives_and_comes_back() {
    everywhere(&[1, 2, 3, 8, 13], &Shapes);
}

struct Empty;

impl Test for Empty {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let (none, some) = (Buffer::new(BUFFERS, 0), Buffer::new(BUFFERS, 8));
        let mut chain = Chain::with_capacity(4);
        for round in 0..20 {
            let shapes: [(&[Buffer], &[Buffer]); 4] = [
                (&[none], &[]),
                (&[], &[none]),
                (&[none, some, none], &[none]),
                (&[none], &[none, none, some]),
            ];
            for (readable, writable) in shapes {
                driver.add(readable, writable, round).unwrap();
                let head = device.pop(&mut chain).unwrap().unwrap();
                assert_eq!((chain.readable(), chain.writable()), (readable, writable));
                let len = head.writable_len();
                device.add_used(head, len).unwrap();
                let used = driver.get_used().unwrap().unwrap();
                assert_eq!((used.data, used.len), (round, len), "{about}");
            }
        }
    }
}

#[test]
fn pieces_of_no_bytes_are_pieces() {
    everywhere(&[4, 5], &Empty);
}

struct Full;

impl Test for Full {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let size = u64::from(driver.free());
        for lap in 0..3 {
            for data in 0..size {
                offer(&mut driver, lap * size + data);
            }
            let free = 0;
            let error = driver.add(&[Buffer::new(BUFFERS, 1)], &[], 7).unwrap_err();
            assert_eq!(error.error, AddError::Full { needed: 1, free }, "{about}");
            assert_eq!(serve(&mut device), size, "{about}");
            for data in 0..size {
                assert_eq!(driver.get_used().unwrap().unwrap().data, lap * size + data);
            }
            assert_eq!(driver.get_used().unwrap(), None, "{about}");
        }
    }
}

#[test]
fn full_queues_of_one_and_of_32768_go_round() {
    everywhere(&[1, 2, 5], &Full);
    split(32768, PLAIN, &Full);
    packed(32768, EVENT_IDX, &Full);
}

struct Sizes(u16);

impl Test for Sizes {
    fn run(
        &self,
        driver: Driver<u64, impl Side, impl Brand>,
        device: impl DeviceQueue,
        about: &str,
    ) {
        assert_eq!((driver.free(), device.size()), (self.0, self.0), "{about}");
    }
}

#[test]
fn both_sides_know_the_size_of_the_ring() {
    for size in [1, 2, 64] {
        split(size, PLAIN, &Sizes(size));
        packed(size, PLAIN, &Sizes(size));
    }
}

struct FullChain;

impl Test for FullChain {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let size = usize::from(driver.free());
        let pieces = vec![Buffer::new(BUFFERS, 1); size];
        for round in 0..5 {
            driver.add(&pieces, &[], round).unwrap();
            assert!(driver.kick_prepare(), "{about}");
            assert_eq!(serve(&mut device), 1, "{about}: the ring did not stall");
            assert_eq!(driver.get_used().unwrap().unwrap().data, round, "{about}");
        }
        let needed = size + 1;
        let pieces = vec![Buffer::new(BUFFERS, 1); needed];
        let limit = driver.free();
        let error = driver.add(&pieces, &[], 7).unwrap_err().error;
        assert_eq!(error, AddError::TooLong { needed, limit });
    }
}

#[test]
fn chain_that_fills_the_ring_does_not_stall_it() {
    for size in [1, 2, 4, 64] {
        split(size, PLAIN, &FullChain);
    }
    for size in [1, 2, 3, 7, 64] {
        packed(size, PLAIN, &FullChain);
    }
}

struct Mistakes;

impl Test for Mistakes {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(8);
        assert_eq!(
            driver.add(&[], &[], 1).unwrap_err().error,
            AddError::Empty,
            "{about}"
        );
        let half = Buffer::new(0, 1 << 31);
        let len = 1 << 32;
        let error = driver.add(&[half], &[half], 1).unwrap_err().error;
        assert_eq!(error, AddError::TooLarge { len }, "{about}");
        driver.add(&[], &[Buffer::new(BUFFERS, 8)], 1).unwrap();
        let head = device.pop(&mut chain).unwrap().unwrap();
        let (id, len, writable) = (head.id(), 9, 8);
        let past = UsedError::LengthPastChain { id, len, writable };
        assert_eq!(device.add_used(head, 9), Err(past), "{about}");
        assert_eq!(
            driver.get_used().unwrap(),
            None,
            "{about}: nothing was said"
        );
    }
}

#[test]
fn mistakes_of_our_own_side_are_refused_and_break_nothing() {
    everywhere(&[4], &Mistakes);
}

struct Largest;

impl Test for Largest {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(2);
        let largest = [Buffer::new(0, u32::MAX - 1), Buffer::new(0, 1)];
        driver.add(&largest, &[], 1).unwrap();
        let head = device.pop(&mut chain).unwrap().unwrap();
        assert_eq!(chain.readable_len(), u32::MAX, "{about}");
        device.add_used(head, 0).unwrap();
        driver.get_used().unwrap().unwrap();
        let error = driver.add(&[BUFFER; 65], &[], 1).unwrap_err().error;
        let AddError::TooLong { needed: 65, limit } = error else {
            panic!("{about}: {error}");
        };
        while driver.free() > 0 {
            offer(&mut driver, 2);
        }
        // A buffer that would be accepted if there were room is not reported as too long or too large.
        for pieces in [&largest[..], &vec![BUFFER; usize::from(limit)]] {
            let error = driver.add(pieces, &[], 3).unwrap_err().error;
            assert!(
                matches!(error, AddError::Full { free: 0, .. }),
                "{about}: {error}"
            );
        }
    }
}

#[test]
fn longest_and_largest_buffers_are_refused_only_for_want_of_room() {
    everywhere(&[2, 3], &Largest);
}

#[test]
fn chain_of_another_queue_is_refused() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 4));
    let other = SplitLayout::contiguous(0x1000, 4);
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, PLAIN, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, PLAIN).unwrap();
        let mut wrong = SplitDevice::new(&memory, &other, PLAIN).unwrap();
        offer(&mut driver, 1);
        let head = device.pop(&mut Chain::with_capacity(4)).unwrap().unwrap();
        let id = head.id();
        assert_eq!(wrong.add_used(head, 0), Err(UsedError::NotTaken { id }));
    });
}

struct Resets;

impl Test for Resets {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        _: impl DeviceQueue,
        about: &str,
    ) {
        let size = driver.free();
        offer(&mut driver, 5);
        assert_eq!(driver.detach_unused(), Some(5), "{about}");
        driver.reset();
        assert_eq!(
            (driver.free(), driver.detach_unused()),
            (size, None),
            "{about}"
        );
        assert_eq!(driver.get_used().unwrap(), None, "{about}");
    }
}

#[test]
fn reset_drops_what_was_in_flight() {
    everywhere(&[1, 4], &Resets);
}

#[test]
fn indirect_tables_need_the_feature_and_memory() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 4));
    brand::scoped(|brand| {
        let driver = SplitDriver::<u64, _, _>::new(&memory, &layout, PLAIN, brand).unwrap();
        let error = driver.with_indirect_tables(TABLES, 8).unwrap_err();
        let (entries, negotiated) = (8, false);
        assert_eq!(
            error,
            SetupError::Indirect {
                entries,
                negotiated
            }
        );
    });
    brand::scoped(|brand| {
        let driver = SplitDriver::<u64, _, _>::new(&memory, &layout, INDIRECT, brand).unwrap();
        let error = driver.with_indirect_tables(1 << 40, 8).unwrap_err();
        assert!(matches!(error, SetupError::Outside { .. }), "{error}");
    });
}

#[test]
fn buffer_of_one_piece_goes_without_an_indirect_table() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 2));
    brand::scoped(|brand| {
        let driver = SplitDriver::new(&memory, &layout, INDIRECT, brand).unwrap();
        let mut driver = driver.with_indirect_tables(TABLES, 8).unwrap();
        driver.add(&[BUFFER], &[], 1_u64).unwrap();
        driver.add(&[], &[BUFFER], 2).unwrap();
        let flags = |descriptor: u64| memory.get16(16 * descriptor + 12);
        assert_eq!([flags(0), flags(1)], [0, WRITE]);
    });
}

#[test]
fn indirect_buffer_takes_one_descriptor() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 2));
    brand::scoped(|brand| {
        let driver = SplitDriver::new(&memory, &layout, INDIRECT, brand).unwrap();
        let mut driver = driver.with_indirect_tables(TABLES, 8).unwrap();
        driver
            .add(&[Buffer::new(BUFFERS, 1); 8], &[], 1_u64)
            .unwrap();
        assert_eq!(driver.free(), 1);
        let error = driver
            .add(&[Buffer::new(BUFFERS, 1); 9], &[], 1)
            .unwrap_err()
            .error;
        let (needed, limit) = (9, 8);
        assert_eq!(error, AddError::TooLong { needed, limit });
    });
}
