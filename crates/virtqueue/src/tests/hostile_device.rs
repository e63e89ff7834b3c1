//! The device writes invalid values: the driver side returns a clear error and is broken, and nothing worse happens.
//!
//! Each test covers a class of bugs that some virtqueue implementation has had.

use std::error::Error;

use super::*;

fn break_driver(queue: &mut Driver<u64, impl Side, impl Brand>, error: QueueError) {
    let opaque = queue.enable_cb_prepare::<Opaque<_>>();
    let token = queue.enable_cb_prepare::<Token<_>>();
    let free = queue.free();
    assert_eq!(queue.get_used().unwrap_err(), error);
    assert_eq!(
        queue.get_used().unwrap_err(),
        error,
        "broken queues stay broken"
    );
    assert_eq!(queue.broken(), Some(error));
    // The answers of a broken queue.
    assert!(!queue.poll(opaque) && !queue.poll(token) && !queue.kick_prepare());
    assert!(
        queue.enable_cb() && queue.enable_cb_delayed(),
        "no thread waits in a loop"
    );
    let refused = queue.add(&[BUFFER], &[], 77).unwrap_err();
    assert_eq!((refused.error, refused.data), (AddError::Broken(error), 77));
    assert_eq!(refused.to_string(), refused.error.to_string());
    assert_eq!(
        format!("{refused:?}"),
        format!("NotAdded {{ error: {:?}, .. }}", refused.error),
        "with data of any kind"
    );
    let sources = [refused.source(), refused.error.source()];
    assert_eq!(
        sources.map(|source| source.map(ToString::to_string)),
        [Some(error.to_string()), Some(error.to_string())]
    );
    let refused = queue.use_wrap_counter(Status(1 | 2 | 8)).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    // The data of the buffers in flight can be taken back.
    let detached = std::iter::from_fn(|| queue.detach_unused()).count();
    assert!(detached <= usize::from(SIZE) && free <= SIZE);
    queue.reset();
    assert_eq!((queue.broken(), queue.free()), (None, SIZE));
    assert_eq!(queue.get_used().unwrap(), None);
}

/// A split driver with one buffer of 8 writable bytes in flight, and a device that has written these values.
fn split_used(index: u16, id: u32, len: u32, error: QueueError) {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        driver.add(&[], &[BUFFER], 1).unwrap();
        memory.put32(SPLIT.used + 4, id);
        memory.put32(SPLIT.used + 8, len);
        memory.put16(SPLIT.used + 2, index);
        break_driver(&mut driver, error);
    });
}

#[test]
fn used_index_ahead_of_what_is_in_flight_breaks_the_driver() {
    for index in [2, 4, 5, 0x8000, 0xffff] {
        let (consumed, outstanding) = (0, 1);
        split_used(
            index,
            0,
            0,
            QueueError::UsedAhead {
                index,
                consumed,
                outstanding,
            },
        );
    }
}

#[test]
fn used_index_that_goes_back_breaks_the_driver() {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &SPLIT, PLAIN).unwrap();
        turn(&mut driver, &mut device, 3);
        offer(&mut driver, 1);
        memory.put16(SPLIT.used + 2, 2);
        let (index, consumed, outstanding) = (2, 3, 1);
        break_driver(
            &mut driver,
            QueueError::UsedAhead {
                index,
                consumed,
                outstanding,
            },
        );
    });
}

#[test]
fn used_id_out_of_range_breaks_the_driver() {
    for id in [4, 0x1_0000, u32::MAX] {
        split_used(1, id, 0, QueueError::IdOutOfRange { id, size: SIZE });
    }
}

#[test]
fn used_id_that_is_no_head_breaks_the_driver() {
    split_used(1, 1, 0, QueueError::NotInFlight { id: 1 });
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        driver.add(&[BUFFER; 3], &[], 1).unwrap();
        // The id of a descriptor in the middle of the chain.
        memory.put32(SPLIT.used + 4, 1);
        memory.put16(SPLIT.used + 2, 1);
        break_driver(&mut driver, QueueError::NotInFlight { id: 1 });
    });
}

#[test]
fn buffer_used_twice_breaks_the_driver() {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        offer(&mut driver, 1);
        offer(&mut driver, 2);
        memory.put16(SPLIT.used + 2, 2);
        assert_eq!(driver.get_used().unwrap().unwrap().data, 1);
        break_driver(&mut driver, QueueError::NotInFlight { id: 0 });
    });
}

#[test]
fn used_length_past_the_buffer_breaks_the_driver() {
    for len in [9, u32::MAX] {
        let (id, writable) = (0, 8);
        split_used(
            1,
            id,
            len,
            QueueError::LengthPastBuffer { id, len, writable },
        );
    }
}

#[test]
fn device_that_rewrites_the_descriptor_table_does_not_move_the_driver() {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &SPLIT, PLAIN).unwrap();
        for _ in 0..10 {
            driver.add(&[BUFFER; 3], &[BUFFER], 1).unwrap();
            serve(&mut device);
            for descriptor in 0..4 {
                memory.put_descriptor(16 * descriptor, BUFFER, NEXT, 0xffff);
            }
            assert_eq!(driver.get_used().unwrap().unwrap().len, 8);
        }
    });
}

#[test]
fn packed_id_and_length_from_the_device_are_checked() {
    let used = |id: u16, len: u32, flags: u16| {
        u64::from(len) | u64::from(id) << 32 | u64::from(flags | AVAIL | USED) << 48
    };
    let (id, size) = (4, SIZE);
    let out_of_range = QueueError::IdOutOfRange { id, size };
    let (len, writable) = (9, 8);
    let too_long = QueueError::LengthPastBuffer {
        id: 0,
        len,
        writable,
    };
    for (word, error) in [
        (used(4, 0, 0), out_of_range),
        (used(3, 0, 0), QueueError::NotInFlight { id: 3 }),
        (used(0, 9, WRITE), too_long),
    ] {
        for features in [PLAIN, IN_ORDER] {
            let memory = memory();
            brand::scoped(|brand| {
                let mut driver = PackedDriver::new(&memory, &PACKED, features, brand).unwrap();
                driver.add(&[], &[BUFFER], 1).unwrap();
                memory.put64(8, word);
                break_driver(&mut driver, error);
            });
        }
    }
}

#[test]
fn packed_used_descriptors_of_an_empty_queue_break_the_driver() {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = PackedDriver::<u64, _, _>::new(&memory, &PACKED, PLAIN, brand).unwrap();
        memory.put64(8, u64::from(AVAIL | USED) << 48);
        break_driver(&mut driver, QueueError::NotInFlight { id: 0 });
    });
}

#[test]
fn packed_length_of_a_buffer_that_was_not_written_is_nothing() {
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = PackedDriver::new(&memory, &PACKED, PLAIN, brand).unwrap();
        driver.add(&[], &[BUFFER], 1).unwrap();
        memory.put64(8, u64::from(AVAIL | USED) << 48 | 0xffff_ffff);
        assert_eq!(driver.get_used().unwrap().unwrap().len, 0);
    });
}

#[test]
fn batch_that_names_no_buffer_in_flight_or_ends_too_late_breaks_the_driver() {
    for (index, id, error) in [
        (1, 1, QueueError::BatchPastIndex { id: 1, index: 1 }),
        (2, 2, QueueError::NotInFlight { id: 2 }),
        (2, 9, QueueError::IdOutOfRange { id: 9, size: SIZE }),
    ] {
        let memory = memory();
        brand::scoped(|brand| {
            let mut driver = SplitDriver::new(&memory, &SPLIT, IN_ORDER, brand).unwrap();
            offer(&mut driver, 1);
            offer(&mut driver, 2);
            memory.put32(SPLIT.used + 4, id);
            memory.put16(SPLIT.used + 2, index);
            break_driver(&mut driver, error);
        });
    }
}
