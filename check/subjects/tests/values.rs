//! vmbell's rings with a value in every field: no side reads a stale one. With `--weaken`, the test shows which orders
//! they need.

use vmbell_check::{Explorer, Format};
use vmbell_subjects::Values;

fn no_value_is_stale(format: Format, event_idx: bool) {
    for values in Values::all(format, event_idx) {
        let explorer = Explorer::new().seconds(vmbell_subjects::HANG);
        let report = explorer.run(|scenario| values.set_up(scenario));
        let report = report.unwrap_or_else(|error| panic!("{values}: {error}"));
        let is_good = report.failure().is_none() && report.is_complete();
        assert!(is_good, "{values}:\n{report}");
        let counts = report.verdicts.iter().map(|verdict| verdict.executions());
        println!("{values}: {:?}", counts.collect::<Vec<_>>());
    }
}

#[test]
fn no_value_of_a_split_ring_is_stale() {
    no_value_is_stale(Format::Split, false);
}

#[test]
fn no_value_of_a_split_ring_with_an_event_index_is_stale() {
    no_value_is_stale(Format::Split, true);
}

#[test]
fn no_value_of_a_packed_ring_is_stale() {
    no_value_is_stale(Format::Packed, false);
}

#[test]
fn no_value_of_a_packed_ring_with_an_event_index_is_stale() {
    no_value_is_stale(Format::Packed, true);
}
