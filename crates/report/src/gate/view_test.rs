use super::super::figures::BootRange;
use super::super::verdict::{FailedBoot, GateQuantity, GateRow, GoneRow};
use super::*;
use crate::sample::plain;

fn name(row: &str) -> GateRow {
    GateRow {
        place: GatePlace {
            kernel: "debian:6.12".to_owned(),
            vmm: "alioth".to_owned(),
        },
        row: row.to_owned(),
    }
}

fn verdict() -> GateVerdict {
    let change = |row: &str, quantity, budget: f64, allowed, now: f64| GateChange {
        name: name(row),
        quantity,
        budget: BootRange([budget; 3]),
        allowed,
        now: BootRange([now; 3]),
        reasons: BTreeMap::new(),
    };
    GateVerdict {
        held: 38,
        grown: vec![
            GateChange {
                reasons: [("io".to_owned(), [1.0, 2.0])].into(),
                ..change("virtio-blk-notify", GateQuantity::Exits, 1.0, 1.05, 2.0)
            },
            change(
                "virtio-blk-notify",
                GateQuantity::Instructions,
                16143.0,
                16183.0,
                18643.0,
            ),
        ],
        shrunk: vec![change(
            "cpuid",
            GateQuantity::Instructions,
            2991.0,
            2998.0,
            2791.0,
        )],
        gone: vec![GoneRow {
            name: name("rtc-read"),
            reason: "there is no clock".to_owned(),
        }],
        failed: [1, 2]
            .map(|seed| FailedBoot {
                place: name("").place,
                seed,
                reason: "it gave no results".to_owned(),
                last_output: Some("bad \u{1b}[31m address".to_owned()),
            })
            .into(),
        new: vec![name("virtio-net-notify")],
        wide: vec![name("ipi-to-vcpu")],
        versions: Vec::new(),
    }
}

#[test]
fn a_terminal_shows_what_grew_and_why() {
    insta::assert_snapshot!(plain(&blocks(&verdict())));
}

#[test]
fn markdown_shows_the_same() {
    insta::assert_snapshot!(crate::markdown(&blocks(&verdict())));
}

#[test]
fn what_is_within_budget_is_one_line() {
    let verdict = GateVerdict {
        held: 38,
        ..GateVerdict::default()
    };
    assert_eq!(plain(&blocks(&verdict)), "within budget: 38 rows held\n");
}

#[test]
fn what_would_fill_the_screen_is_counted() {
    let names = |count: usize| (0..count).map(|row| name(&format!("row-{row}"))).collect();
    let mut verdict = GateVerdict::default();
    for (count, ends) in [
        (6, "row-5 (alioth)"),
        (7, "row-5 (alioth), and 1 more"),
        (9, "row-5 (alioth), and 3 more"),
    ] {
        (verdict.new, verdict.wide) = (names(count), names(count));
        let shown = plain(&blocks(&verdict)).replace("\n  ", " ");
        assert_eq!(shown.matches(ends).count(), 2, "{shown}");
        assert_eq!(shown.contains("(alioth), and "), count > 6, "{shown}");
    }
    // The largest changes of exits are shown.
    let mut change = self::verdict().grown.remove(0);
    for (count, ends) in [(6, "reason-0 0 -> 1"), (7, "reason-1 0 -> 2, and 1 more")] {
        let reasons =
            (0..count).map(|reason| (format!("reason-{reason}"), [0.0, f64::from(reason) + 1.0]));
        change.reasons = reasons.collect();
        let sentence = reasons_of(&change);
        assert!(sentence.ends_with(ends), "{sentence}");
    }
}

fn reasons_of(change: &GateChange) -> String {
    super::reasons(change).unwrap()
}

#[test]
fn the_last_line_counts_what_is_over_budget() {
    let all = verdict();
    let empty = GateVerdict {
        held: 1,
        ..GateVerdict::default()
    };
    let gone = |count: usize| vec![all.gone[0].clone(); count];
    for (verdict, line) in [
        (empty.clone(), "within budget: 1 row held"),
        (
            GateVerdict {
                shrunk: all.shrunk.clone(),
                ..empty.clone()
            },
            "within budget: 1 row held",
        ),
        (
            GateVerdict {
                grown: all.grown.clone(),
                ..empty.clone()
            },
            "over budget: 1 row grew; 1 row held",
        ),
        (
            GateVerdict {
                gone: gone(1),
                ..empty.clone()
            },
            "over budget: 1 row is gone; 1 row held",
        ),
        (
            GateVerdict {
                gone: gone(2),
                failed: vec![all.failed[0].clone()],
                held: 0,
                ..empty
            },
            "over budget: 2 rows are gone, 1 boot failed; 0 rows held",
        ),
    ] {
        assert_eq!(headline(&verdict), line);
    }
}

#[test]
fn a_difference_has_its_sign_and_a_share_of_large_numbers() {
    let mut change = verdict().grown.remove(0);
    for (budget, now, text) in [
        (1.0, 2.0, "+1"),
        (2.0, 1.5, "-0.5"),
        (99.0, 198.0, "+99"),
        (100.0, 150.0, "+50 (+50.0 %)"),
        (16_000.0, 15_600.0, "-400 (-2.5 %)"),
    ] {
        (change.budget, change.now) = (BootRange([budget; 3]), BootRange([now; 3]));
        assert_eq!(difference(&change), text);
    }
}

#[test]
fn another_version_is_told_with_that_of_the_budget() {
    let place = name("").place;
    let verdict = GateVerdict {
        versions: vec![super::super::verdict::OtherVersion {
            place,
            budget: "alioth 1".to_owned(),
            now: "alioth 2".to_owned(),
        }],
        ..GateVerdict::default()
    };
    let told = "alioth on debian:6.12: this is alioth 2, and the budget is of alioth 1";
    assert_eq!(notes(&verdict), [told]);
}
