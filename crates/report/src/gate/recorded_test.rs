//! The rule against recorded boots: no false alarm, and small changes are found.

use std::collections::BTreeMap;

use super::super::super::figures::Range;
use super::*;
use crate::Random;

const RECORDED: &str = include_str!("recorded.txt");
/// Boots of each side.
const BOOTS: usize = 5;
const COMPARISONS: usize = 1000;

/// What was recorded of a row.
struct Recorded {
    name: Name,
    exits: [f64; 2],
    instructions: Vec<f64>,
}

fn recorded() -> Vec<Recorded> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        let name = Name {
            place: Place {
                vmm: word().to_owned(),
                ..place("")
            },
            row: word().to_owned(),
        };
        let exits = [word().parse().unwrap(), word().parse().unwrap()];
        Recorded {
            name,
            exits,
            instructions: words.map(|word| word.parse().unwrap()).collect(),
        }
    };
    lines.map(row).collect()
}

/// What some of the boots measured, with a change of each row's exits and instructions.
fn measured_in(
    rows: &[Recorded],
    boots: &[usize],
    change: impl Fn(&Name) -> (f64, f64),
) -> BTreeMap<Place, Measured> {
    let mut places: BTreeMap<Place, Measured> = BTreeMap::new();
    for row in rows {
        let (more, factor) = change(&row.name);
        let taken = boots.iter().map(|boot| row.instructions[*boot] * factor);
        let exits = row.exits.map(|exits| Some([exits + more; 3].into()));
        let figures = Figures {
            instructions: Range::of(&taken.collect::<Vec<_>>()).unwrap(),
            exits: exits[0],
            to_vmm: exits[1],
            reasons: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        let place = places.entry(row.name.place.clone()).or_default();
        place.rows.insert(row.name.row.clone(), figures);
    }
    places
}

/// Two sides of different boots, by chance.
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
        let side = |boots| measured_in(&rows, boots, |_| (0.0, 1.0));
        let verdict = judge(&side(&budget), &side(&now));
        assert_eq!(verdict.grown, [], "{budget:?} {now:?}");
        assert_eq!(verdict.held, rows.len());
    }
}

#[test]
fn each_of_a_hundred_changes_is_found_and_nothing_else() {
    let rows = recorded();
    let all = rows[0].instructions.len();
    let of_one_thread: Vec<&Name> = rows
        .iter()
        .map(|row| &row.name)
        .filter(|name| !has_two_threads(&name.row))
        .collect();
    let mut random = Random::new(2);
    for round in 0..100 {
        let (budget, now) = sides(&mut random, all);
        let any = &rows[random.below(rows.len())].name;
        let slower = of_one_thread[round % of_one_thread.len()];
        let before = measured_in(&rows, &budget, |_| (0.0, 1.0));
        let found = |more: f64, factor: f64, changed: &Name| {
            let after = measured_in(&rows, &now, |name| match name == changed {
                true => (more, factor),
                false => (0.0, 1.0),
            });
            let grown = judge(&before, &after).grown;
            assert!(!grown.is_empty(), "{changed:?} {budget:?} {now:?}");
            assert!(grown.iter().all(|change| change.name == *changed));
        };
        found(1.0, 1.0, any);
        found(0.0, 1.005, slower);
    }
}
