//! The driver writes invalid values: the device side returns a clear error and is broken, and nothing worse happens.
//!
//! Each test covers a class of bugs that some virtqueue implementation has had.

use super::*;

/// A split device that finds these descriptors and this head.
fn split_avail(
    descriptors: &[Entry],
    head: u16,
    features: Features,
) -> (HostMemory, SplitDevice<HostMemory>) {
    let memory = memory();
    for (&(buffer, flags, next), i) in descriptors.iter().zip(0..) {
        memory.put_descriptor(16 * i, buffer, flags, next);
    }
    memory.put16(SPLIT.avail + 4, head);
    memory.put16(SPLIT.avail + 2, 1);
    let device = SplitDevice::new(&memory, &SPLIT, features).unwrap();
    (memory, device)
}

fn split_error(descriptors: &[Entry], head: u16, features: Features) -> QueueError {
    let (_, mut device) = split_avail(descriptors, head, features);
    let error = pop_error(&mut device);
    assert_eq!(device.broken(), Some(error));
    assert!(!device.enable_notification(), "no thread waits in a loop");
    error
}

#[test]
fn available_index_ahead_by_more_than_the_ring_breaks_the_device() {
    for index in [5, 0x8000, 0xffff] {
        let (memory, mut device) = split_avail(&[], 0, PLAIN);
        memory.put16(SPLIT.avail + 2, index);
        let (used, size) = (0, SIZE);
        assert_eq!(
            pop_error(&mut device),
            QueueError::AvailAhead { index, used, size }
        );
    }
}

#[test]
fn device_never_holds_more_chains_than_the_ring_has() {
    let (memory, mut device) = split_avail(&[(BUFFER, 0, 0); 4], 0, PLAIN);
    let mut chain = Chain::with_capacity(4);
    for index in 1..=4 {
        memory.put16(SPLIT.avail + 2, index);
        let _head = device.pop(&mut chain).unwrap().unwrap();
    }
    memory.put16(SPLIT.avail + 2, 5);
    let (index, used, size) = (5, 0, SIZE);
    assert_eq!(
        pop_error(&mut device),
        QueueError::AvailAhead { index, used, size }
    );
}

#[test]
fn available_index_that_goes_back_breaks_the_device() {
    let (memory, mut device) = split_avail(&[(BUFFER, 0, 0); 4], 0, PLAIN);
    memory.put16(SPLIT.avail + 2, 3);
    let mut chain = Chain::with_capacity(4);
    for _ in 0..3 {
        let _head = device.pop(&mut chain).unwrap().unwrap();
    }
    memory.put16(SPLIT.avail + 2, 2);
    assert!(device.enable_notification(), "it is not empty, in some way");
    let (index, used, size) = (2, 0, SIZE);
    assert_eq!(
        pop_error(&mut device),
        QueueError::AvailAhead { index, used, size }
    );
}

#[test]
fn head_that_is_none_breaks_the_device() {
    for head in [4, 0xffff] {
        let (id, size) = (u32::from(head), SIZE);
        assert_eq!(
            split_error(&[], head, PLAIN),
            QueueError::IdOutOfRange { id, size }
        );
    }
}

#[test]
fn chain_out_of_the_table_breaks_the_device() {
    let chain = [(BUFFER, NEXT, 4)];
    let (id, size) = (4, SIZE);
    assert_eq!(
        split_error(&chain, 0, PLAIN),
        QueueError::IdOutOfRange { id, size }
    );
}

#[test]
fn chain_with_a_loop_breaks_the_device() {
    let itself = [(BUFFER, NEXT, 0)];
    assert_eq!(split_error(&itself, 0, PLAIN), QueueError::Loop { head: 0 });
    let two = [(BUFFER, NEXT, 1), (BUFFER, NEXT, 0)];
    assert_eq!(split_error(&two, 1, PLAIN), QueueError::Loop { head: 1 });
    let all = [1, 2, 3, 0].map(|next| (BUFFER, NEXT, next));
    assert_eq!(split_error(&all, 0, PLAIN), QueueError::Loop { head: 0 });
}

#[test]
fn chain_longer_than_the_device_takes_breaks_it() {
    let (_, mut device) = split_avail(&[(BUFFER, NEXT, 1), (BUFFER, 0, 0)], 0, PLAIN);
    let error = device.pop(&mut Chain::with_capacity(1)).unwrap_err();
    assert_eq!(error, QueueError::ChainTooLong { head: 0, limit: 1 });
}

#[test]
fn readable_buffer_behind_a_writable_one_breaks_the_device() {
    let chain = [(BUFFER, NEXT | WRITE, 1), (BUFFER, 0, 0)];
    let error = QueueError::ReadableAfterWritable { head: 0 };
    assert_eq!(split_error(&chain, 0, PLAIN), error);
}

#[test]
fn buffer_past_the_end_of_the_address_space_breaks_the_device() {
    let (addr, len) = (u64::MAX - 6, 8);
    let chain = [(Buffer { addr, len }, 0, 0)];
    assert_eq!(
        split_error(&chain, 0, PLAIN),
        QueueError::BufferWraps { addr, len }
    );
}

#[test]
fn chain_of_4_gib_breaks_the_device() {
    let half = Buffer::new(0, 1 << 31);
    let chain = [(half, NEXT, 1), (half, WRITE, 0)];
    assert_eq!(
        split_error(&chain, 0, PLAIN),
        QueueError::ChainTooLarge { head: 0 }
    );
}

#[test]
fn indirect_table_where_there_may_be_none_breaks_the_device() {
    let table = Buffer::new(TABLES, 16);
    let misplaced = QueueError::IndirectMisplaced { head: 0 };
    let chain = [(table, INDIRECT_FLAG, 0)];
    assert_eq!(split_error(&chain, 0, PLAIN), misplaced, "not negotiated");
    let chain = [(table, INDIRECT_FLAG | NEXT, 1), (BUFFER, 0, 0)];
    assert_eq!(split_error(&chain, 0, INDIRECT), misplaced, "chained");
    let (memory, mut device) = split_avail(&[(table, INDIRECT_FLAG, 0)], 0, INDIRECT);
    memory.put_descriptor(TABLES, table, INDIRECT_FLAG, 0);
    assert_eq!(pop_error(&mut device), misplaced, "nested");
}

#[test]
fn indirect_table_of_a_bad_length_or_place_breaks_the_device() {
    for len in [0, 1, 15, 17, 40] {
        let chain = [(Buffer::new(TABLES, len), INDIRECT_FLAG, 0)];
        let error = QueueError::IndirectLength { head: 0, len };
        assert_eq!(split_error(&chain, 0, INDIRECT), error);
    }
    for addr in [0x20_0000, 0x20_0000 - 16, 1 << 60, u64::MAX - 31] {
        let chain = [(Buffer::new(addr, 32), INDIRECT_FLAG, 0)];
        let error = QueueError::IndirectOutside { addr, len: 32 };
        assert_eq!(split_error(&chain, 0, INDIRECT), error);
    }
    let len = 0xffff_fff0;
    let chain = [(Buffer::new(0, len), INDIRECT_FLAG, 0)];
    let error = QueueError::IndirectOutside { addr: 0, len };
    assert_eq!(split_error(&chain, 0, INDIRECT), error);
}

#[test]
fn indirect_table_with_a_loop_or_a_way_out_breaks_the_device() {
    let (id, size) = (0xffff, 2);
    for (next, error) in [
        (0, QueueError::Loop { head: 0 }),
        (1, QueueError::Loop { head: 0 }),
        (2, QueueError::IdOutOfRange { id: 2, size }),
        (0xffff, QueueError::IdOutOfRange { id, size }),
    ] {
        // The second address is misaligned for a descriptor.
        for addr in [TABLES, TABLES + 4] {
            let table = [(Buffer::new(addr, 32), INDIRECT_FLAG, 0)];
            let (memory, mut device) = split_avail(&table, 0, INDIRECT);
            memory.put_descriptor(addr, BUFFER, NEXT, next);
            memory.put_descriptor(addr + 16, BUFFER, NEXT, next);
            assert_eq!(pop_error(&mut device), error, "{addr:#x}");
        }
    }
}

#[test]
fn indirect_table_of_any_alignment_behind_direct_descriptors_is_good() {
    for addr in [TABLES, TABLES + 1, TABLES + 8] {
        let chain = [
            (BUFFER, NEXT, 2),
            (BUFFER, 0, 0),
            (Buffer::new(addr, 32), INDIRECT_FLAG, 0),
        ];
        let (memory, mut device) = split_avail(&chain, 0, INDIRECT);
        let shift = (addr % 8) * 8;
        // A linked table of two descriptors, shifted by the misalignment.
        let words = [BUFFERS, 8 | 1 << 32 | 1 << 48, BUFFERS + 64, 9 | 2 << 32, 0];
        let mut before = 0;
        for (word, at) in words.into_iter().zip(0..) {
            let shifted = if shift == 0 {
                word
            } else {
                word << shift | before
            };
            memory.put64(addr - addr % 8 + 8 * at, shifted);
            before = if shift == 0 { 0 } else { word >> (64 - shift) };
        }
        let mut chain = Chain::with_capacity(4);
        let head = device.pop(&mut chain).unwrap().unwrap();
        assert_eq!(chain.readable(), [BUFFER, BUFFER], "{addr:#x}");
        assert_eq!(chain.writable(), [Buffer::new(BUFFERS + 64, 9)]);
        device.add_used(head, 9).unwrap();
    }
}

/// A packed device that finds these descriptors from slot 0 on, all available.
fn packed_avail(descriptors: &[Entry], features: Features) -> PackedDevice<HostMemory> {
    let memory = memory();
    for (&(buffer, flags, id), i) in descriptors.iter().zip(0..) {
        memory.put64(16 * i, buffer.addr);
        let word = u64::from(id) << 32 | u64::from(flags | AVAIL) << 48;
        memory.put64(16 * i + 8, word | u64::from(buffer.len));
    }
    PackedDevice::new(&memory, &PACKED, features).unwrap()
}

#[test]
fn packed_chains_are_checked_as_split_ones_are() {
    let size = SIZE;
    let id = 4;
    let table = |len| Buffer::new(TABLES, len);
    let wraps = Buffer::new(u64::MAX, 2);
    let (addr, len) = (wraps.addr, wraps.len);
    let cases: [(&[Entry], QueueError); 8] = [
        (&[(BUFFER, 0, 4)], QueueError::IdOutOfRange { id, size }),
        (&[(BUFFER, NEXT, 0); 4], QueueError::Loop { head: 0 }),
        (&[(wraps, 0, 0)], QueueError::BufferWraps { addr, len }),
        (
            &[(BUFFER, NEXT | WRITE, 0), (BUFFER, 0, 0)],
            QueueError::ReadableAfterWritable { head: 0 },
        ),
        (
            &[(BUFFER, NEXT, 0), (table(16), INDIRECT_FLAG, 0)],
            QueueError::IndirectMisplaced { head: 0 },
        ),
        (
            &[(table(16), INDIRECT_FLAG | NEXT, 0)],
            QueueError::IndirectMisplaced { head: 0 },
        ),
        (
            &[(table(20), INDIRECT_FLAG, 0)],
            QueueError::IndirectLength { head: 0, len: 20 },
        ),
        (
            &[(Buffer::new(1 << 40, 16), INDIRECT_FLAG, 0)],
            QueueError::IndirectOutside {
                addr: 1 << 40,
                len: 16,
            },
        ),
    ];
    for (descriptors, error) in cases {
        let mut device = packed_avail(descriptors, INDIRECT);
        assert_eq!(pop_error(&mut device), error);
        assert_eq!(device.broken(), Some(error));
    }
}

#[test]
fn packed_chain_of_one_descriptor_is_named_by_its_slot_and_not_by_its_id() {
    let mut device = packed_avail(&[(BUFFER, 0, 3)], PLAIN);
    let error = device.pop(&mut Chain::with_capacity(0)).unwrap_err();
    assert_eq!(error, QueueError::ChainTooLong { head: 0, limit: 0 });
}

#[test]
fn packed_slots_that_the_device_holds_are_not_offered_again() {
    let memory = memory();
    let mut device = PackedDevice::new(&memory, &PACKED, PLAIN).unwrap();
    let mut chain = Chain::with_capacity(4);
    let available = |flags: u16| 8 | u64::from(flags) << 48;
    for slot in 0..4 {
        memory.put64(16 * slot + 8, available(AVAIL));
        let _head = device.pop(&mut chain).unwrap().unwrap();
    }
    memory.put64(8, available(USED));
    assert!(matches!(
        pop_error(&mut device),
        QueueError::AvailAhead { .. }
    ));
}

#[test]
fn failed_add_leaves_no_trace_in_the_ring() {
    let words = |memory: &HostMemory| (0..100).map(|i| memory.get16(2 * i)).collect::<Vec<_>>();
    let memory = memory();
    brand::scoped(|brand| {
        let mut driver = PackedDriver::new(&memory, &PACKED, PLAIN, brand).unwrap();
        for data in 0..3 {
            offer(&mut driver, data);
        }
        let before = words(&memory);
        let full = AddError::Full { needed: 2, free: 1 };
        assert_eq!(driver.add(&[BUFFER], &[BUFFER], 9).unwrap_err().error, full);
        assert_eq!(words(&memory), before);
        let mut device = PackedDevice::new(&memory, &PACKED, PLAIN).unwrap();
        assert_eq!(serve(&mut device), 3);
    });
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &SPLIT, PLAIN, brand).unwrap();
        driver.add(&[BUFFER; 3], &[], 1).unwrap();
        let before = words(&memory);
        assert!(driver.add(&[BUFFER; 2], &[], 9).is_err());
        assert_eq!(words(&memory), before);
    });
}

#[test]
fn queues_of_impossible_sizes_or_places_are_not_set_up() {
    let memory = memory();
    for size in [0, 3, 0x8001, 0xffff] {
        let error = SplitDevice::new(&memory, &SplitLayout::contiguous(0, size), PLAIN);
        assert_eq!(error.unwrap_err(), SetupError::Size { size });
    }
    for size in [0, 0x8001, 0xffff] {
        let error = PackedDevice::new(&memory, &PackedLayout::contiguous(0, size), PLAIN);
        assert_eq!(error.unwrap_err(), SetupError::Size { size });
    }
    let outside = |layout: &SplitLayout| SplitDevice::new(&memory, layout, PLAIN).unwrap_err();
    for addr in [0x20_0000, u64::MAX, u64::MAX - 4095] {
        let layouts = [
            SplitLayout {
                descriptors: addr & !15,
                ..SPLIT
            },
            SplitLayout {
                avail: addr & !1,
                ..SPLIT
            },
            SplitLayout {
                used: addr & !3,
                ..SPLIT
            },
        ];
        for layout in layouts {
            let error = outside(&layout);
            assert!(
                matches!(error, SetupError::Outside { .. }),
                "{layout:?}: {error}"
            );
        }
    }
    // Parts that fit in memory except for their last bytes.
    let end = MEMORY as u64;
    let (descriptors, avail, used) = (end - 48, end - 12, end - 36);
    for layout in [
        SplitLayout {
            descriptors,
            ..SPLIT
        },
        SplitLayout { avail, ..SPLIT },
        SplitLayout { used, ..SPLIT },
    ] {
        let error = outside(&layout);
        assert!(matches!(error, SetupError::Outside { .. }), "{layout:?}");
    }
    let layout = SplitLayout {
        used: SPLIT.used + 2,
        ..SPLIT
    };
    assert!(matches!(outside(&layout), SetupError::Misaligned { .. }));
    let layout = PackedLayout {
        descriptors: 8,
        ..PACKED
    };
    let error = PackedDevice::new(&memory, &layout, PLAIN).unwrap_err();
    assert!(matches!(error, SetupError::Misaligned { align: 16, .. }));
}

#[test]
fn queues_whose_parts_share_bytes_are_not_set_up() {
    let memory = memory();
    let SplitLayout {
        descriptors,
        avail,
        used,
        size,
    } = SPLIT;
    let size = u64::from(size);
    for layout in [
        SplitLayout {
            avail: descriptors,
            ..SPLIT
        },
        // Overlaps by the last descriptor, and by the last word of the available ring.
        SplitLayout {
            avail: descriptors + 16 * size - 2,
            ..SPLIT
        },
        SplitLayout {
            used: (avail + 4 + 2 * size) & !3,
            ..SPLIT
        },
        SplitLayout {
            used: descriptors + 16,
            ..SPLIT
        },
        SplitLayout {
            descriptors: (used + 4 + 8 * size) & !15,
            ..SPLIT
        },
    ] {
        let error = SplitDevice::new(&memory, &layout, PLAIN).unwrap_err();
        let overlap = matches!(error, SetupError::Overlap { .. });
        assert!(overlap, "{layout:?}: {error}");
    }
    for layout in [
        PackedLayout {
            driver_event: PACKED.descriptors,
            ..PACKED
        },
        PackedLayout {
            device_event: PACKED.driver_event - 4,
            ..PACKED
        },
        PackedLayout {
            device_event: PACKED.driver_event,
            ..PACKED
        },
    ] {
        let error = PackedDevice::new(&memory, &layout, PLAIN).unwrap_err();
        let overlap = matches!(error, SetupError::Overlap { .. });
        assert!(overlap, "{layout:?}: {error}");
    }
    let side_by_side = SplitLayout::contiguous(0, 8);
    let other_way_round = SplitLayout {
        used: 0,
        avail: 74,
        descriptors: 96,
        ..side_by_side
    };
    for layout in [side_by_side, other_way_round] {
        let error = SplitDevice::new(&memory, &layout, PLAIN).err();
        assert_eq!(error, None, "{layout:?}");
    }
}
