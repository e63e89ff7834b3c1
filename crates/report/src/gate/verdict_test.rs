use super::*;
use crate::compare::Difference;
use crate::gate::boots::tests::{OfBoot, boot};
use crate::gate::merged;
use crate::{Kind, Outcome, sample};

const KERNEL: &str = "debian:6.12";

/// A row of three boots: the instructions of each boot, and the row's exits.
#[derive(Clone, Copy)]
struct OfRow<'a>(&'a str, [f64; 3], Option<f64>);

fn boots(rows: &[OfRow<'_>]) -> Vec<Report> {
    let of_boot = |seed: usize| {
        let rows = rows.iter().map(|OfRow(row, instructions, exits)| OfBoot {
            row,
            batches: &instructions[seed..=seed],
            exits: exits.map(|exits| [exits, 0.0]),
            events: &[],
        });
        boot(seed as u64 + 1, &rows.collect::<Vec<_>>())
    };
    (0..3).map(of_boot).collect()
}

fn held(baseline: &[Report], now: &[Report]) -> Result<GateVerdict, CompareError> {
    let mut verdict = GateVerdict::default();
    verdict.add_failed(KERNEL, now);
    let (baseline, now) = (merged(baseline).unwrap(), merged(now).unwrap());
    verdict.hold(KERNEL, Some(&baseline), &now, |_| false)?;
    Ok(verdict)
}

fn verdict(baseline: &[OfRow<'_>], now: &[OfRow<'_>]) -> GateVerdict {
    held(&boots(baseline), &boots(now)).unwrap()
}

/// The instructions of a row's three boots, and the row's exits.
type OneRow = ([f64; 3], f64);

/// The verdict on one row.
fn one(baseline: OneRow, now: OneRow) -> GateVerdict {
    let row = |(instructions, exits)| [OfRow("row", instructions, Some(exits))];
    verdict(&row(baseline), &row(now))
}

#[test]
fn a_row_has_grown_if_it_is_above_all_boots_and_above_what_they_differ_by() {
    let (narrow, spread) = (([3000.0; 3], 1.0), ([3000.0, 3020.0, 3050.0], 1.0));
    let all = |median| ([median; 3], 1.0);
    let (two, less) = (([3000.0; 3], 2.0), ([2500.0; 3], 1.0));
    let wide = ([14_000.0, 15_000.0, 30_000.0], 3.0);
    let wide_now = ([14_000.0, 45_000.0, 60_000.0], 4.0);
    for (case, baseline, now, changes) in [
        ("the same", spread, spread, ""),
        ("a fifth of a per cent", narrow, all(3006.0), ""),
        ("half a per cent", narrow, all(3015.0), "+instructions"),
        ("less than boots of now differ", narrow, spread, ""),
        ("less than those before differ", spread, all(3045.0), ""),
        (
            "more than those differ",
            spread,
            all(3080.0),
            "+instructions",
        ),
        ("less of both", two, less, "-exits -instructions"),
        ("an exit in a wide row", wide, wide_now, "+exits"),
    ] {
        let verdict = one(baseline, now);
        let grown = verdict.grown.iter().map(|change| ("+", change));
        let shrunk = verdict.shrunk.iter().map(|change| ("-", change));
        let found = grown.chain(shrunk);
        let found = found.map(|(sign, change)| format!("{sign}{}", change.quantity.name()));
        assert_eq!(found.collect::<Vec<_>>().join(" "), changes, "{case}");
        assert_eq!(verdict.is_within(), !changes.contains('+'), "{case}");
        assert_eq!(verdict.held, usize::from(verdict.is_within()), "{case}");
        assert_eq!(verdict.wide.len(), usize::from(baseline == wide), "{case}");
    }
}

#[test]
fn a_change_of_exits_has_its_reasons_and_one_of_instructions_what_was_allowed() {
    let grown = one(([3000.0; 3], 3.0), ([3015.0; 3], 4.0)).grown;
    assert_eq!(grown[0].reasons, [("io".to_owned(), [3.0, 4.0])].into());
    assert_eq!(
        (grown[1].allowed, grown[1].now),
        (3007.5, BootRange([3015.0; 3]))
    );
}

#[test]
fn a_row_that_grew_or_is_gone_is_not_held() {
    let mut now = ["a", "b", "c", "d", "e"].map(|name| OfRow(name, [3000.0; 3], Some(1.0)));
    let baseline = now;
    // Two figures of one row, one figure of another row, and one row that was not measured.
    (now[0].1, now[0].2) = ([4000.0; 3], Some(2.0));
    now[1].2 = None;
    let verdict = verdict(&baseline, &now[..4]);
    assert_eq!((verdict.grown.len(), verdict.gone.len()), (2, 2));
    assert_eq!(verdict.held, 2);
    let reasons: Vec<&str> = verdict.gone.iter().map(|gone| &*gone.reason).collect();
    let expected = ["its exits were not counted", "the VMM has no such row"];
    assert_eq!(reasons, expected);
}

#[test]
fn rows_of_two_threads_are_allowed_what_their_meetings_differ_by() {
    let is_held = |now| {
        let row = |median| [OfRow("virtio-blk-notify", [median; 3], Some(1.0))];
        verdict(&row(15_000.0), &row(now)).is_within()
    };
    assert!(is_held(16_900.0));
    assert!(!is_held(17_100.0));
    for (row, two) in [
        ("virtio-rng-eoi", false),
        ("cpuid", false),
        ("hlt-wake", true),
    ] {
        assert_eq!(has_two_threads(row), two, "{row}");
    }
}

#[test]
fn a_row_that_is_gone_fails_with_its_reason_and_a_new_one_does_not() {
    let row = |name| OfRow(name, [3000.0; 3], Some(1.0));
    let mut now = boots(&[row("new")]);
    for (boot, is_failed) in now.iter_mut().zip([false, false, true]) {
        let reason = Some("there is no second CPU".to_owned());
        let mut absent = sample::of_vmm("vmm", "old", 1.0);
        absent.outcome = match is_failed {
            true => Outcome::Failed { reason },
            false => Outcome::Skipped { reason },
        };
        boot.results.push(absent);
    }
    let verdict = held(&boots(&[row("old")]), &now).unwrap();
    assert!(!verdict.is_within());
    assert_eq!(verdict.gone[0].reason, "there is no second CPU");
    assert_eq!(verdict.new[0].row, "new");
}

#[test]
fn a_vmm_that_dies_fails_once_and_not_for_each_of_its_rows() {
    let mut dead = boot(7, &[]);
    dead.kind = Kind::Vmms {
        vmms: vec![sample::vmm("vmm", 0, false)],
    };
    let baseline = boots(&[OfRow("row", [3000.0; 3], Some(1.0))]);
    let verdict = held(&baseline, &[dead]).unwrap();
    assert!(!verdict.is_within());
    assert_eq!((verdict.failed.len(), verdict.gone.len()), (1, 0));
    assert_eq!(verdict.failed[0].seed, 7);
    let reason = "it printed nothing of the image";
    assert_eq!(verdict.failed[0].reason, reason);
}

#[test]
fn a_vmm_that_measures_no_row_fails() {
    let mut none = boot(1, &[]);
    let mut row = sample::of_vmm("vmm", "rtc-read", 1.0);
    row.outcome = Outcome::Skipped {
        reason: Some("there is no clock".to_owned()),
    };
    none.results.push(row);
    let mut verdict = GateVerdict::default();
    verdict.add_failed(KERNEL, &[none]);
    let reason = "no row was measured (rtc-read: there is no clock)";
    assert_eq!(verdict.failed[0].reason, reason);
}

#[test]
fn a_baseline_of_another_kernel_version_cpu_or_unit_is_refused_with_both() {
    let ours = merged(&boots(&[OfRow("row", [3000.0; 3], Some(1.0))])).unwrap();
    type Change = fn(&mut Report);
    let changes: [(Change, &str); 4] = [
        (
            |now| now.host.kernel = "Linux 6.19.0".to_owned(),
            "kernel: Linux 6.18.0 before, Linux 6.19.0 now",
        ),
        (
            |now| now.host.cpu = "Other CPU".to_owned(),
            "CPU: Example(R) CPU @ 2.50GHz before, Other CPU now",
        ),
        (
            |now| now.timing = crate::Timing::Emulated,
            "unit: instructions before, emulated now",
        ),
        (
            |now| vmm_of(now).version = Some("VMM 2".to_owned()),
            "version of vmm: VMM 1.2 before, VMM 2 now",
        ),
    ];
    for (change, told) in changes {
        let mut now = ours.clone();
        change(&mut now);
        let mut verdict = GateVerdict::default();
        let error = verdict
            .hold(KERNEL, Some(&ours), &now, |_| false)
            .unwrap_err();
        let CompareError::Different(different) = &error else {
            panic!("{error}");
        };
        let different: Vec<String> = different.iter().map(Difference::to_string).collect();
        assert_eq!(different, [told]);
        assert_eq!(verdict, GateVerdict::default());
        // A VMM that is replaced may have a different version, which is reported.
        let held = verdict.hold(KERNEL, Some(&ours), &now, |name| name == "vmm");
        assert_eq!(held.is_ok(), told.starts_with("version"));
        let versions = verdict.versions.iter();
        let versions: Vec<_> = versions
            .map(|version| (&*version.budget, &*version.now))
            .collect();
        assert!(
            held.is_err() || versions == [("VMM 1.2", "VMM 2")],
            "{versions:?}"
        );
    }
}

#[test]
fn a_baseline_of_another_time_microcode_or_governor_is_held_to() {
    let ours = merged(&boots(&[OfRow("row", [3000.0; 3], Some(1.0))])).unwrap();
    let changes: [fn(&mut Report); 4] = [
        |now| now.started = "2027-01-01T00:00:00Z".to_owned(),
        |now| now.host.microcode = Some("0x2".to_owned()),
        |now| now.host.governor = Some("powersave".to_owned()),
        |now| now.tool.version = "9.0.0".to_owned(),
    ];
    for change in changes {
        let mut now = ours.clone();
        change(&mut now);
        let mut verdict = GateVerdict::default();
        verdict.hold(KERNEL, Some(&ours), &now, |_| false).unwrap();
        assert_eq!((verdict.held, verdict.is_within()), (1, true));
    }
}

#[test]
fn without_a_baseline_the_rows_that_were_measured_are_new() {
    let mut now = merged(&boots(&[OfRow("row", [3000.0; 3], Some(1.0))])).unwrap();
    let mut absent = sample::of_vmm("vmm", "rtc-read", 1.0);
    absent.outcome = Outcome::Skipped { reason: None };
    now.results.push(absent);
    let mut verdict = GateVerdict::default();
    verdict.hold(KERNEL, None, &now, |_| false).unwrap();
    let new: Vec<_> = verdict
        .new
        .iter()
        .map(|new| (&*new.place.vmm, &*new.row))
        .collect();
    assert_eq!(new, [("vmm", "row")]);
    assert!(verdict.is_within());
}

#[test]
fn exits_that_go_on_to_the_vmm_are_held_to_a_budget_of_their_own() {
    let of = |to_vmm: f64| {
        let row = OfBoot {
            row: "row",
            batches: &[3000.0],
            exits: Some([2.0, to_vmm]),
            events: &[],
        };
        [boot(1, &[row])]
    };
    for (budget, now, grown, shrunk) in [(0.0, 1.0, 1, 0), (1.0, 0.0, 0, 1), (1.0, 1.0, 0, 0)] {
        let verdict = held(&of(budget), &of(now)).unwrap();
        assert_eq!((verdict.grown.len(), verdict.shrunk.len()), (grown, shrunk));
        for change in verdict.grown.iter().chain(&verdict.shrunk) {
            assert_eq!(change.quantity, GateQuantity::ToVmm);
            assert_eq!(change.quantity.name(), "exits to the VMM");
            // Only a change of all exits has reasons.
            assert_eq!(change.reasons, BTreeMap::new());
        }
    }
}

#[test]
fn exits_are_missed_only_if_the_budget_has_them() {
    for (budget, now, held) in [(Some(1.0), None, 0), (None, Some(1.0), 1), (None, None, 1)] {
        let row = |exits| [OfRow("row", [3000.0; 3], exits)];
        let verdict = verdict(&row(budget), &row(now));
        assert_eq!((verdict.held, verdict.gone.len()), (held, 1 - held));
        assert!(verdict.grown.is_empty(), "{:?}", verdict.grown);
    }
}

fn vmm_of(report: &mut Report) -> &mut crate::Vmm {
    match &mut report.kind {
        Kind::Vmms { vmms } => &mut vmms[0],
        kind => panic!("{kind:?}"),
    }
}

#[test]
fn a_vmm_of_the_baseline_that_is_not_measured_any_more_is_not_missed() {
    let mut both = boots(&[OfRow("row", [3000.0; 3], Some(1.0))]);
    for boot in &mut both {
        let Kind::Vmms { vmms } = &mut boot.kind else {
            panic!("{boot:?}");
        };
        vmms.push(sample::vmm("other", 1, false));
        let mut row = boot.results[0].clone();
        row.backend = "other".to_owned();
        boot.results.push(row);
    }
    let now = boots(&[OfRow("row", [3000.0; 3], Some(1.0))]);
    let verdict = held(&both, &now).unwrap();
    assert_eq!((verdict.held, verdict.gone.len()), (1, 0));
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn range() -> impl Strategy<Value = [f64; 3]> {
        (100.0..50_000.0_f64, 0.0..500.0_f64, 0.0..500.0_f64)
            .prop_map(|(least, a, b)| [least, least + a.min(b), least + a.max(b)])
    }

    proptest! {
        /// No figure both grows and shrinks, and swapping the sides swaps growth and shrinking.
        #[test]
        fn growth_one_way_is_shrinking_the_other_way(budget in range(), now in range()) {
            let there = one((budget, 1.0), (now, 1.0));
            let back = one((now, 1.0), (budget, 1.0));
            prop_assert!(there.grown.is_empty() || there.shrunk.is_empty());
            prop_assert_eq!(there.grown.len(), back.shrunk.len());
            prop_assert_eq!(there.shrunk.len(), back.grown.len());
        }

        /// An accepted baseline is within its own budget.
        #[test]
        fn figures_are_within_themselves(range in range(), exits in 0.0..9.0_f64) {
            prop_assert!(one((range, exits), (range, exits)).is_within());
        }
    }
}

#[path = "recorded_test.rs"]
mod recorded;
