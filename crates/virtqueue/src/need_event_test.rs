use proptest::prelude::*;

use super::*;

#[test]
fn step_onto_the_event_crosses_it() {
    assert!(need_event(0, 1, 0));
    assert!(need_event(4, 5, 4));
    assert!(!need_event(5, 5, 4), "not yet");
    assert!(!need_event(3, 5, 4), "long ago");
}

#[test]
fn step_from_the_last_index_to_the_first_crosses_the_last() {
    assert!(need_event(0xffff, 0, 0xffff));
    assert!(!need_event(0, 0, 0xffff));
    assert!(need_event(0, 1, 0xffff));
}

#[test]
fn no_step_crosses_nothing() {
    for event in [0, 1, 0x7fff, 0x8000, 0xffff] {
        assert!(!need_event(event, 7, 7));
    }
}

proptest! {
    #[test]
    fn events_are_crossed_exactly_if_they_are_among_the_new(
        old in any::<u64>().prop_map(|old| old >> 1),
        steps in 0..=u64::from(u16::MAX),
        event in 0..=u64::from(u16::MAX),
    ) {
        // The event is at most 2^16 before the new index.
        let new = old + steps;
        let event = new.saturating_sub(event + 1);
        let crossed = (old..new).contains(&event);
        #[allow(clippy::cast_possible_truncation)]
        let result = need_event(event as u16, new as u16, old as u16);
        prop_assert_eq!(result, crossed);
    }
}
