use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn take(slots: &mut Slots<u32>, count: u16, data: u32) -> u16 {
    let head = slots.first();
    let mut last = head;
    for _ in 1..count {
        last = slots.next(last);
    }
    slots.take(head, last, count, 8, data);
    head
}

#[test]
fn entries_come_in_the_order_of_the_table_if_they_come_back_in_order() {
    let mut slots = Slots::new(4);
    for round in 0..10_u16 {
        let head = take(&mut slots, 1, 7);
        assert_eq!((head, slots.oldest()), (round % 4, round % 4));
        assert_eq!(slots.give_back(u32::from(head), 0, true).unwrap().data, 7);
    }
}

#[test]
fn entries_of_a_chain_are_free_again_in_one_go() {
    let mut slots = Slots::new(4);
    let (one, two) = (take(&mut slots, 3, 1), take(&mut slots, 1, 2));
    assert_eq!((one, two), (0, 3));
    // Out of order, with no entry free in between.
    slots.give_back(3, 0, true).unwrap();
    assert_eq!(take(&mut slots, 1, 3), 3);
    assert_eq!(slots.give_back(0, 0, true).unwrap().count, 3);
    assert_eq!([take(&mut slots, 1, 4), take(&mut slots, 2, 5)], [0, 1]);
}

#[test]
fn nothing_comes_back_twice_or_from_nowhere() {
    let mut slots = Slots::new(2);
    take(&mut slots, 1, 1);
    let error = |slots: &mut Slots<u32>, id, len| {
        assert!(slots.give_back(id, len, true).is_none());
        slots.refusal(id, len)
    };
    let size = 2;
    assert_eq!(
        error(&mut slots, 2, 0),
        QueueError::IdOutOfRange { id: 2, size }
    );
    let id = u32::MAX;
    assert_eq!(
        error(&mut slots, id, 0),
        QueueError::IdOutOfRange { id, size }
    );
    for len in [0, 9] {
        let absent = QueueError::NotInFlight { id: 1 };
        assert_eq!(error(&mut slots, 1, len), absent);
    }
    let (len, writable) = (9, 8);
    let past = QueueError::LengthPastBuffer {
        id: 0,
        len,
        writable,
    };
    assert_eq!(error(&mut slots, 0, 9), past);
    assert!(slots.give_back(0, 8, true).is_some(), "it is still there");
    assert_eq!(error(&mut slots, 0, 0), QueueError::NotInFlight { id: 0 });
}

#[test]
fn detached_data_is_what_was_in_flight() {
    let mut slots = Slots::new(4);
    take(&mut slots, 2, 1);
    take(&mut slots, 1, 2);
    assert_eq!(
        [slots.detach(), slots.detach(), slots.detach()],
        [Some(1), Some(2), None]
    );
}

proptest! {
    /// Buffers come back in any order: the free entries are the ones that no buffer has, in the order in which they
    /// came back.
    #[test]
    fn free_entries_are_those_of_no_buffer(
        size in 1_u16..9,
        steps in proptest::collection::vec((any::<bool>(), 1_u16..4, any::<prop::sample::Index>()), 1..100),
    ) {
        let mut slots = Slots::new(size);
        let mut free: VecDeque<u16> = (0..size).collect();
        let mut in_flight: Vec<Vec<u16>> = Vec::new();
        for ((add, count, which), data) in steps.into_iter().zip(0..) {
            if add && usize::from(count) <= free.len() {
                let entries: Vec<u16> = free.drain(..usize::from(count)).collect();
                prop_assert_eq!(take(&mut slots, count, data), entries[0]);
                in_flight.push(entries);
            } else if !in_flight.is_empty() {
                let entries = in_flight.remove(which.index(in_flight.len()));
                let id = u32::from(entries[0]);
                prop_assert_eq!(usize::from(slots.give_back(id, 0, true).unwrap().count), entries.len());
                free.extend(entries);
            }
        }
        let left = std::iter::from_fn(|| slots.detach()).count();
        prop_assert_eq!(left, in_flight.len());
    }
}
