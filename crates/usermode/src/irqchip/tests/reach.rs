//! Checks that the random steps of the model really reach the situations that the model is meant to test.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{TestCaseError, TestRunner};

use super::model::{Pair, Step, steps};

const CASES: usize = 512;
/// How often each situation must occur in all [`CASES`] together.
const ENOUGH: usize = CASES / 8;

/// How often each situation occurred.
type Met = BTreeMap<&'static str, usize>;

/// Makes a step and counts the situations that it meets.
fn step(pair: &mut Pair, step: Step, met: &mut Met) -> Result<(), TestCaseError> {
    let mut note = |what, is_met: bool| *met.entry(what).or_default() += usize::from(is_met);
    let vcpu = &pair.vcpu;
    let (armed, depth, spared) = (vcpu.is_armed(), vcpu.handlers.len(), vcpu.spared);
    let owed = vcpu.pv_eoi.is_pending() && !armed;
    let nested = vcpu.in_service().len() > 1;
    for (while_armed, when_owed, is_this) in [
        (
            "exit while armed",
            "exit that owes an eoi",
            matches!(step, Step::Exit),
        ),
        (
            "task priority while armed",
            "task priority that owes an eoi",
            matches!(step, Step::Tpr(_)),
        ),
        (
            "migration while armed",
            "migration that owes an eoi",
            matches!(step, Step::Migrate),
        ),
    ] {
        note(while_armed, is_this && armed);
        note(when_owed, is_this && owed);
    }
    pair.step(step)?;
    let vcpu = &pair.vcpu;
    let deeper = vcpu.handlers.len() > depth;
    note("three nested", deeper && vcpu.in_service().len() >= 3);
    note(
        "bit moves to the inner one",
        armed && deeper && vcpu.is_armed(),
    );
    note("spared while nested", nested && vcpu.spared > spared);
    let idle = vcpu.interruptible && vcpu.handlers.is_empty() && !vcpu.kicked;
    note(
        "held back by the task priority",
        idle && !vcpu.lapic.irr.is_empty(),
    );
    Ok(())
}

#[test]
fn steps_come_to_what_they_are_about() {
    let mut runner = TestRunner::deterministic();
    let mut met = Met::new();
    for _ in 0..CASES {
        let case = steps().new_tree(&mut runner).unwrap().current();
        let mut pair = Pair::new(true);
        for one in case {
            step(&mut pair, one, &mut met).unwrap();
        }
    }
    assert!(met.values().all(|times| *times >= ENOUGH), "{met:#?}");
}
