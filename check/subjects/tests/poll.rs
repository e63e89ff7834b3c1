//! The answers that a polling driver gets after its index has wrapped.

use vmbell_check::{Explorer, Shape, What};
use vmbell_subjects::poll::{Poller, explore, polls_after, polls_after_consuming};
use vmbell_subjects::{INDEX, TOKEN, WRAPS};

const WRAP: u64 = 1 << 16;
const WRAPS_OF_WRAPS: u64 = 1 << 32;

/// Checks the answer that a driver gets while a buffer waits, in every order of its steps and the device's.
#[track_caller]
fn check(poller: Poller, shape: Shape, before: u64, is_told: bool) {
    let report = explore(&Explorer::new(), poller, shape, before, 3);
    let report = report.unwrap_or_else(|error| panic!("{poller:?}, {shape:?}: {error}"));
    for verdict in &report.verdicts {
        match &verdict.failure {
            None => assert!(
                is_told && verdict.complete,
                "{poller:?}, {shape:?}: {report}"
            ),
            Some(failure) => {
                assert!(!is_told, "{poller:?}, {shape:?}: {report}");
                assert!(matches!(failure.what, What::Claim(_)), "{report}");
            }
        }
    }
}

#[test]
fn an_index_of_16_bits_is_fooled_after_65536_buffers_of_a_split_ring() {
    for event_idx in [false, true] {
        let shape = Shape::split(2, event_idx);
        for (count, is_told) in [(65_535, true), (65_536, false), (65_537, true)] {
            assert_eq!(polls_after(INDEX, shape, count), is_told, "{count}");
        }
        for poller in [WRAPS, TOKEN] {
            assert!(polls_after(poller, shape, 65_536), "{poller:?}");
        }
        check(INDEX, shape, WRAP - 3, false);
        check(WRAPS, shape, WRAP - 3, true);
        check(TOKEN, shape, WRAP - 3, true);
    }
}

#[test]
fn an_index_of_16_bits_is_fooled_within_one_lap_of_a_packed_ring() {
    for size in [2, 64] {
        let shape = Shape::packed(size, true);
        let lap = u32::from(size);
        let untold =
            |poller| (1..=3 * lap).filter(move |&count| !polls_after(poller, shape, count));
        assert!(untold(INDEX).eq(lap + 1..=2 * lap), "size {size}");
        for poller in [WRAPS, TOKEN] {
            assert_eq!(untold(poller).next(), None, "{poller:?}, size {size}");
        }
    }
    for event_idx in [false, true] {
        let shape = Shape::packed(2, event_idx);
        check(INDEX, shape, 0, false);
        check(WRAPS, shape, 0, true);
        check(TOKEN, shape, 0, true);
    }
}

/// Using all these buffers takes too long for a test. So the driver remembers its place, and is then restored to the
/// state after it has consumed them.
#[test]
fn an_index_and_16_bits_of_wraps_are_fooled_after_4294967296_buffers_and_a_token_is_not() {
    for event_idx in [false, true] {
        let shape = Shape::split(2, event_idx);
        for laps in [1, 2, WRAP - 1] {
            let consumed = laps * WRAP;
            assert!(
                !polls_after_consuming(INDEX, shape, consumed),
                "{laps} laps"
            );
            assert!(polls_after_consuming(WRAPS, shape, consumed), "{laps} laps");
        }
        assert!(!polls_after_consuming(WRAPS, shape, WRAPS_OF_WRAPS));
        assert!(polls_after_consuming(WRAPS, shape, WRAPS_OF_WRAPS + 1));
        for consumed in [WRAP, WRAPS_OF_WRAPS, 1 << 48, 1 << 62] {
            assert!(polls_after_consuming(TOKEN, shape, consumed), "{consumed}");
        }
        // The poller also returns true while a buffer waits: the ring's index and the whole position are compared.
        check(WRAPS, shape, WRAPS_OF_WRAPS - 3, true);
        check(TOKEN, shape, WRAPS_OF_WRAPS - 3, true);
    }
}
