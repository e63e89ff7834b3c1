//! Linux's rings with a value in every field: no side reads a stale one. With `--weaken`, the test shows which barriers
//! they need.
#![cfg(feature = "c")]

use vmbell_check::{Explorer, Model};
use vmbell_subjects::c::LinuxValues;

#[test]
fn no_value_of_linux_rings_is_stale() {
    for values in LinuxValues::all() {
        let explorer = Explorer::new()
            .models([Model::Tso, Model::Rc11])
            .seconds(vmbell_subjects::HANG);
        let report = explorer.run(|scenario| values.set_up(scenario));
        let report = report.unwrap_or_else(|error| panic!("{values}: {error}"));
        let is_good = report.failure().is_none() && report.is_complete();
        assert!(is_good, "{values}:\n{report}");
        let counts = report.verdicts.iter().map(|verdict| verdict.executions());
        println!("{values}: {:?}", counts.collect::<Vec<_>>());
    }
}
