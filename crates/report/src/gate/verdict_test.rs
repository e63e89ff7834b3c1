use super::super::figures::Figures;
use super::*;

fn place(vmm: &str) -> Place {
    Place {
        kernel: "debian:6.12".to_owned(),
        vmm: vmm.to_owned(),
    }
}

fn figures(instructions: [f64; 3], exits: f64) -> Figures {
    Figures {
        instructions: instructions.into(),
        exits: Some([exits; 3].into()),
        to_vmm: Some([0.0; 3].into()),
        reasons: [("io".to_owned(), exits)].into(),
        addresses: BTreeMap::new(),
    }
}

fn measured(rows: &[(&str, Figures)]) -> BTreeMap<Place, Measured> {
    let rows = rows
        .iter()
        .map(|(name, figures)| ((*name).to_owned(), figures.clone()));
    let measured = Measured {
        version: Some("vmm 1".to_owned()),
        rows: rows.collect(),
        ..Measured::default()
    };
    [(place("vmm"), measured)].into()
}

fn one(budget: Figures, now: Figures) -> Verdict {
    judge(&measured(&[("row", budget)]), &measured(&[("row", now)]))
}

#[test]
fn the_same_figures_are_within_the_budget() {
    let same = figures([2990.0, 2991.0, 2995.0], 1.0);
    let verdict = one(same.clone(), same);
    assert!(verdict.is_within());
    assert_eq!(
        verdict,
        Verdict {
            held: 1,
            ..Verdict::default()
        }
    );
}

#[test]
fn half_a_per_cent_more_instructions_are_found_and_a_fifth_is_not() {
    let budget = figures([3000.0; 3], 1.0);
    let grown = one(budget.clone(), figures([3015.0; 3], 1.0));
    assert!(!grown.is_within());
    assert_eq!(grown.grown[0].quantity, Quantity::Instructions);
    assert_eq!(grown.grown[0].allowed, 3007.5);
    assert!(one(budget, figures([3006.0; 3], 1.0)).is_within());
}

#[test]
fn a_row_that_grew_or_is_gone_is_not_held() {
    let row = figures([3000.0; 3], 1.0);
    let budget: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|name| (name, row.clone()))
        .into();
    let mut now = budget.clone();
    // Two figures of one row, one of another, and one that was not measured.
    now[0].1 = figures([4000.0; 3], 2.0);
    now[1].1.exits = None;
    now.pop();
    let verdict = judge(&measured(&budget), &measured(&now));
    assert_eq!((verdict.grown.len(), verdict.gone.len()), (2, 2));
    assert_eq!(verdict.held, 2);
}

#[test]
fn rows_of_two_threads_are_allowed_what_their_meetings_differ_by() {
    let held = |now| {
        let [budget, now] = [15_000.0, now].map(|median| figures([median; 3], 1.0));
        let row = |figures| measured(&[("virtio-blk-notify", figures)]);
        judge(&row(budget), &row(now)).is_within()
    };
    assert!(held(16_900.0));
    assert!(!held(17_100.0));
    for (row, two) in [
        ("virtio-rng-eoi", false),
        ("cpuid", false),
        ("hlt-wake", true),
    ] {
        assert_eq!(has_two_threads(row), two, "{row}");
    }
}

#[test]
fn a_change_that_boots_of_either_side_differ_by_is_chance() {
    let (narrow, spread) = ([3000.0; 3], [3000.0, 3020.0, 3050.0]);
    assert!(one(figures(narrow, 1.0), figures(spread, 1.0)).is_within());
    assert!(one(figures(spread, 1.0), figures([3045.0; 3], 1.0)).is_within());
    assert!(!one(figures(spread, 1.0), figures([3080.0; 3], 1.0)).is_within());
}

#[test]
fn one_exit_more_is_found_with_its_reason_and_in_rows_that_are_wide() {
    let budget = figures([14_000.0, 15_000.0, 30_000.0], 3.0);
    let verdict = one(budget, figures([14_000.0, 45_000.0, 60_000.0], 4.0));
    assert_eq!(verdict.wide.len(), 1);
    let [change] = verdict.grown.as_slice() else {
        panic!("{verdict:?}");
    };
    assert_eq!(change.quantity, Quantity::Exits);
    assert_eq!(change.reasons, [("io".to_owned(), [3.0, 4.0])].into());
}

#[test]
fn what_shrinks_is_told_and_is_within_the_budget() {
    let verdict = one(figures([3000.0; 3], 2.0), figures([2500.0; 3], 1.0));
    assert!(verdict.is_within());
    let quantities: Vec<_> = verdict
        .shrunk
        .iter()
        .map(|change| change.quantity)
        .collect();
    assert_eq!(quantities, [Quantity::Exits, Quantity::Instructions]);
}

#[test]
fn a_row_that_is_gone_fails_and_a_new_one_does_not() {
    let row = figures([3000.0; 3], 1.0);
    let mut now = measured(&[("new", row.clone())]);
    let absent = &mut now.get_mut(&place("vmm")).unwrap().absent;
    absent.insert("old".to_owned(), "there is no second CPU".to_owned());
    let verdict = judge(&measured(&[("old", row)]), &now);
    assert!(!verdict.is_within());
    assert_eq!(verdict.gone[0].reason, "there is no second CPU");
    assert_eq!(verdict.new[0].row, "new");
}

#[test]
fn a_row_whose_exits_were_not_counted_fails() {
    let row = figures([3000.0; 3], 1.0);
    let without = Figures {
        exits: None,
        ..row.clone()
    };
    let verdict = one(row, without);
    assert!(!verdict.is_within());
    assert_eq!(verdict.gone[0].reason, "its exits were not counted");
}

#[test]
fn a_vmm_that_dies_fails_once_and_not_for_each_of_its_rows() {
    let budget = measured(&[("row", figures([3000.0; 3], 1.0))]);
    let dead = Measured {
        failures: vec![BootFailure {
            seed: 1,
            reason: "it gave no results".to_owned(),
            last_output: Some("panic".to_owned()),
        }],
        ..Measured::default()
    };
    let verdict = judge(&budget, &[(place("vmm"), dead)].into());
    assert!(!verdict.is_within());
    assert_eq!((verdict.failed.len(), verdict.gone.len()), (1, 0));
}

#[test]
fn another_version_is_told() {
    let row = [("row", figures([3000.0; 3], 1.0))];
    let mut now = measured(&row);
    now.get_mut(&place("vmm")).unwrap().version = Some("vmm 2".to_owned());
    let verdict = judge(&measured(&row), &now);
    assert!(verdict.is_within());
    assert_eq!(verdict.versions[0].now, "vmm 2");
    let mut budget = measured(&row);
    for (side, kernel) in [(&mut budget, "Linux 1"), (&mut now, "Linux 2")] {
        side.get_mut(&place("vmm")).unwrap().kernel = Some(kernel.to_owned());
    }
    let verdict = judge(&budget, &now);
    assert_eq!(verdict.versions[1].budget, "Linux 1");
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = [f64; 3]> {
        (100.0..50_000.0_f64, 0.0..500.0_f64, 0.0..500.0_f64)
            .prop_map(|(least, a, b)| [least, least + a.min(b), least + a.max(b)])
    }

    proptest! {
        /// No figure both grows and shrinks, and swapping the sides swaps the two.
        #[test]
        fn growth_one_way_is_shrinking_the_other_way(budget in range(), now in range()) {
            let (budget, now) = (figures(budget, 1.0), figures(now, 1.0));
            let there = one(budget.clone(), now.clone());
            let back = one(now, budget);
            prop_assert!(there.grown.is_empty() || there.shrunk.is_empty());
            prop_assert_eq!(there.grown.len(), back.shrunk.len());
            prop_assert_eq!(there.shrunk.len(), back.grown.len());
        }

        /// What was accepted is within the budget at once.
        #[test]
        fn figures_are_within_themselves(range in range(), exits in 0.0..9.0_f64) {
            let figures = figures(range, exits);
            prop_assert!(one(figures.clone(), figures).is_within());
        }
    }
}

#[path = "recorded_test.rs"]
mod recorded;
