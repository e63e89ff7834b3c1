use proptest::prelude::*;

use super::*;
use crate::HostMemory;

#[test]
fn wrap_counter_starts_at_one_and_flips_when_slots_start_over() {
    let last = Position::START.advance(6, 7);
    assert_eq!((last.slot(), last.wrap()), (6, true));
    let first = last.advance(1, 7);
    assert_eq!((first.slot(), first.wrap()), (0, false));
    assert!(first.advance(7, 7).wrap());
}

#[test]
fn chain_that_fills_the_ring_flips_the_wrap_counter() {
    for size in [1, 2, 7, 256, 32768] {
        let mut position = Position::START;
        for lap in 1..5 {
            position = position.advance(size, size);
            assert_eq!(
                (position.slot(), position.wrap()),
                (0, lap % 2 == 0),
                "{size}"
            );
        }
    }
}

#[test]
fn descriptors_are_told_apart_in_odd_and_even_laps() {
    let even = Position::START;
    let odd = even.advance(1, 1);
    assert_eq!((even.available(), odd.available()), (AVAIL, USED));
    assert!(even.is_used(AVAIL | USED) && !even.is_used(0) && !even.is_used(AVAIL));
    assert!(odd.is_used(0) && !odd.is_used(AVAIL | USED) && !odd.is_used(USED));
}

#[test]
fn event_at_the_wrap_boundary_is_crossed_once() {
    // A ring of 4 slots: from slot 3 of the first lap to slot 1 of the second.
    let old = Position::START.advance(3, 4);
    let new = old.advance(2, 4);
    assert!(new.passed(old.off_wrap(), 2, 4));
    assert!(new.passed(Position::START.advance(4, 4).off_wrap(), 2, 4));
    assert!(!new.passed(new.off_wrap(), 2, 4), "the next one");
    assert!(
        !new.passed(Position::START.advance(2, 4).off_wrap(), 2, 4),
        "the one before"
    );
}

#[test]
fn event_outside_of_the_ring_is_no_trouble() {
    for off_wrap in [0x7fff, 0xffff] {
        for wrap in [0, 4] {
            let position = Position::START.advance(wrap, 4).advance(1, 4);
            let _: bool = position.passed(off_wrap, 1, 4);
        }
    }
}

proptest! {
    #[test]
    fn positions_count_as_whole_numbers_do(
        size in 1_u16..=32768,
        counts in proptest::collection::vec(1_u16..=32768, 1..50),
    ) {
        let (mut position, mut total) = (Position::START, 0_u64);
        for count in counts {
            let count = count.min(size);
            let old = position;
            position = position.advance(count, size);
            total += u64::from(count);
            prop_assert_eq!(u64::from(position.slot()), total % u64::from(size));
            prop_assert_eq!(position.wrap(), total / u64::from(size) % 2 == 0);
            prop_assert_eq!(position.since(old, size), u64::from(count));
        }
    }

    #[test]
    fn events_are_crossed_exactly_if_they_are_among_the_new(
        size in 1_u16..=300,
        start in 0_u64..2000,
        steps in 0_u16..300,
        back in 1_u64..=300,
    ) {
        let steps = steps.min(size);
        let mut old = Position::START;
        for _ in 0..start {
            old = old.advance(1, size);
        }
        let new = old.advance(steps, size);
        // The event is at most one lap before the new position.
        let back = back.min(u64::from(size)).min(start + u64::from(steps));
        prop_assume!(back > 0);
        let mut event = Position::START;
        for _ in 0..start + u64::from(steps) - back {
            event = event.advance(1, size);
        }
        prop_assert_eq!(new.passed(event.off_wrap(), u64::from(steps), size), back <= u64::from(steps));
    }
}

proptest! {
    /// A cursor moves as the arithmetic of positions says, and has the flags of its lap.
    #[test]
    fn cursor_agrees_with_positions(
        size in 1_u16..9,
        steps in proptest::collection::vec((1_u16..9, any::<bool>()), 1..50),
    ) {
        let layout = PackedLayout::contiguous(0, size);
        let ring = PackedRing::resolve(&HostMemory::new(4096), &layout).unwrap();
        let (mut available, mut used) = (ring.available(), ring.used());
        let mut position = Position::START;
        for (count, set) in steps {
            let count = count.min(size);
            position = position.advance(count, size);
            if set {
                available.set(position.0);
                used.block();
                used.set(position.0);
            } else {
                available.advance(count);
                let mut visited = 0;
                let mut pass = |limit| used.pass(count, limit, |_| visited += 1);
                prop_assert_eq!([pass(position.0 - 1), pass(position.0)], [false, true]);
                prop_assert_eq!(visited, 1);
                // A buffer from a larger queue is refused, even if the device has taken the whole ring.
                let farthest = position.0 + 0x1_0000;
                prop_assert!(!used.pass(size + count, farthest, |_| unreachable!("it does not pass")));
            }
            for (cursor, flags) in [(&available, position.available()), (&used, position.used())] {
                prop_assert_eq!(Position::of(cursor), position);
                prop_assert_eq!(cursor.mark(), descriptor::packed::rest(0, 0, flags));
                prop_assert!(std::ptr::eq(cursor.get(), ring.at(position)));
            }
        }
    }
}

#[test]
fn blocked_cursor_matches_no_descriptor() {
    let layout = PackedLayout::contiguous(0, 4);
    let ring = PackedRing::resolve(&HostMemory::new(4096), &layout).unwrap();
    let mut used = ring.used();
    ring.at(Position::START)
        .store_rest(u64::MAX, Ordering::Relaxed);
    assert!(look(&used).1);
    used.block();
    for rest in [0, 1, u64::MAX, used.mark()] {
        ring.at(Position::START).store_rest(rest, Ordering::Relaxed);
        assert!(!look(&used).1, "{rest:#x}");
    }
}
