//! Tests the rule on recorded boots: no false alarms, and small changes are found.

use std::collections::BTreeSet;

use super::*;
use crate::gate::figures::{EXITS, TO_VMM};
use crate::{Counts, Timing};
use vmbell_statistics::Random;

const RECORDED: &str = include_str!("recorded.txt");
/// Boots of each side.
const BOOTS: usize = 5;
const COMPARISONS: usize = 1000;

/// What was recorded for a row.
struct Recorded {
    vmm: String,
    row: String,
    exits: [u64; 2],
    instructions: Vec<f64>,
}

fn recorded() -> Vec<Recorded> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        let [vmm, row] = [word(), word()].map(str::to_owned);
        let exits = [word().parse().unwrap(), word().parse().unwrap()];
        Recorded {
            vmm,
            row,
            exits,
            instructions: words.map(|word| word.parse().unwrap()).collect(),
        }
    };
    lines.map(row).collect()
}

/// Operations of a boot.
const OPS: u64 = 100;

/// What some of the boots measured, with a change applied to each row's exits and instructions.
fn measured_in(
    rows: &[Recorded],
    boots: &[usize],
    change: impl Fn(&Recorded) -> (u64, f64),
) -> Report {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.vmm.as_str()).collect();
    let vmms = names.into_iter().map(|name| sample::vmm(name, 5, false));
    let row = |recorded: &Recorded| {
        let (more, factor) = change(recorded);
        let mut row = sample::of_vmm(&recorded.vmm, &recorded.row, 1.0);
        let measured = sample::of(&mut row);
        let taken = boots
            .iter()
            .map(|boot| recorded.instructions[*boot] * factor);
        (measured.times.samples, measured.times.ops) = taken.map(|sample| (sample, OPS)).unzip();
        let events = [EXITS, TO_VMM].into_iter().zip(recorded.exits);
        let events =
            events.map(|(name, exits)| (name.to_owned(), vec![(exits + more) * OPS; BOOTS]));
        measured.events = Counts::from_iter(events);
        row
    };
    Report {
        timing: Timing::Instructions,
        ..sample::of_vmms(vmms.collect(), rows.iter().map(row).collect())
    }
}

/// The verdict of a gate on these two reports.
fn judge(budget: &Report, now: &Report) -> GateVerdict {
    let mut verdict = GateVerdict::default();
    verdict
        .hold("debian:6.12", Some(budget), now, |_| false)
        .unwrap();
    verdict
}

/// Two disjoint random sets of boots.
fn sides(random: &mut Random, all: usize) -> (Vec<usize>, Vec<usize>) {
    let mut boots: Vec<usize> = (0..all).collect();
    random.shuffle(&mut boots);
    let other = boots.split_off(BOOTS);
    (boots, other[..BOOTS].to_vec())
}

#[test]
fn a_thousand_comparisons_of_the_same_program_raise_no_alarm() {
    let rows = recorded();
    let all = rows[0].instructions.len();
    let mut random = Random::new(1);
    for _ in 0..COMPARISONS {
        let (budget, now) = sides(&mut random, all);
        let side = |boots| measured_in(&rows, boots, |_| (0, 1.0));
        let verdict = judge(&side(&budget), &side(&now));
        assert_eq!(verdict.grown, [], "{budget:?} {now:?}");
        assert_eq!(verdict.held, rows.len());
    }
}

#[test]
fn each_of_a_hundred_changes_is_found_and_nothing_else() {
    let rows = recorded();
    let all = rows[0].instructions.len();
    let of_one_thread: Vec<&Recorded> = rows
        .iter()
        .filter(|row| !has_two_threads(&row.row))
        .collect();
    let mut random = Random::new(2);
    for round in 0..100 {
        let (budget, now) = sides(&mut random, all);
        let any = &rows[random.below(rows.len())];
        let slower = of_one_thread[round % of_one_thread.len()];
        let before = measured_in(&rows, &budget, |_| (0, 1.0));
        let found = |more: u64, factor: f64, changed: &Recorded| {
            let changed = (changed.vmm.as_str(), changed.row.as_str());
            let name = |row: &Recorded| (row.vmm.as_str(), row.row.as_str()) == changed;
            let after = measured_in(&rows, &now, |row| match name(row) {
                true => (more, factor),
                false => (0, 1.0),
            });
            let grown = judge(&before, &after).grown;
            assert!(!grown.is_empty(), "{changed:?} {budget:?} {now:?}");
            let is_changed =
                |change: &GateChange| (&*change.name.place.vmm, &*change.name.row) == changed;
            assert!(grown.iter().all(is_changed));
        };
        found(1, 1.0, any);
        found(0, 1.005, slower);
    }
}
