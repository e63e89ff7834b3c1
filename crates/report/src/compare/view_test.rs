//! Tests of what is shown of a comparison.

use super::*;
use crate::compare::samples;
use crate::{Block, Screen, markdown, terminal};

#[test]
fn the_table() {
    insta::assert_snapshot!(terminal(
        &samples::comparison().blocks(false),
        Screen::default()
    ));
}

#[test]
fn a_comparison_without_a_change_has_no_table_and_says_how_to_see_the_rows() {
    let mut comparison = samples::comparison();
    comparison.rows.retain(|row| row.verdict == Verdict::Same);
    let tables = |all_rows| {
        let blocks = comparison.blocks(all_rows).into_iter();
        blocks
            .filter(|block| matches!(block, Block::Table(_)))
            .count()
    };
    assert_eq!((tables(false), tables(true)), (0, 1));
    let text = crate::sample::plain(&comparison.blocks(false));
    assert!(text.starts_with("1 same\n"), "{text}");
    assert!(text.ends_with("-v shows all.\n"), "{text}");
}

#[test]
fn verdicts_have_colours() {
    let color = Screen {
        color: true,
        ..Screen::default()
    };
    let text = terminal(&samples::comparison().blocks(false), color);
    assert!(text.contains("\x1b[31mslower\x1b[0m"));
    assert!(text.contains("\x1b[32mfaster\x1b[0m"));
    assert!(!terminal(&samples::comparison().blocks(false), Screen::default()).contains('\x1b'));
}

#[test]
fn instructions_are_cheaper_or_more_expensive_as_in_a_report() {
    let mut comparison = samples::comparison();
    comparison.timing = Timing::Instructions;
    let text = crate::sample::plain(&comparison.blocks(false));
    let counts = "1 more expensive, 1 cheaper, 1 same, 1 inconclusive\n";
    assert!(text.starts_with(counts), "{text}");
    let verdict = |row: &str| {
        let line = text.lines().find(|line| line.starts_with(row)).unwrap();
        line.rsplit("  ").next().unwrap()
    };
    assert_eq!(verdict("row-0"), "more expensive");
    assert_eq!(verdict("row-1"), "cheaper");
}

#[test]
fn a_narrow_terminal_keeps_the_verdict() {
    let narrow = Screen {
        width: Some(30),
        ..Screen::default()
    };
    let text = terminal(&samples::comparison().blocks(false), narrow);
    assert!(
        text.lines().all(|line| line.chars().count() <= 30),
        "{text}"
    );
    assert!(text.contains("slower"));
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(markdown(&samples::comparison().blocks(true)));
}

#[test]
fn a_row_is_named_with_what_tells_it_from_another_one() {
    let key = |(group, command, backend, doorbells): (Group, &str, &str, &str)| RowKey {
        command: command.to_owned(),
        group,
        backend: backend.to_owned(),
        parameters: match doorbells {
            "" => BTreeMap::new(),
            number => [("doorbells".to_owned(), number.to_owned())].into(),
        },
    };
    let (path, floor) = (Group::Scenario, Group::Floor);
    let mut comparison = samples::comparison();
    comparison.rows.clear();
    for (old, new, names) in [
        (
            (path, "ring", "kvm", ""),
            (path, "exit", "kvm", ""),
            ["ring", "exit"],
        ),
        (
            (path, "ring", "kvm", "1"),
            (path, "exit", "kvm", "9"),
            ["ring", "exit"],
        ),
        (
            (path, "ring", "kvm", ""),
            (path, "exit", "usermode", ""),
            ["ring (kvm)", "exit (usermode)"],
        ),
        (
            (path, "ring", "kvm", "1"),
            (path, "ring", "kvm", "9"),
            ["ring [doorbells=1]", "ring [doorbells=9]"],
        ),
        (
            (path, "ring", "kvm", ""),
            (floor, "write", "host", ""),
            ["ring", "write"],
        ),
        (
            (floor, "write", "host", ""),
            (floor, "read", "kvm", ""),
            ["write", "read"],
        ),
    ] {
        let (old, new) = (key(old), key(new));
        (comparison.only_old, comparison.only_new) = (vec![old.clone()], vec![new.clone()]);
        let of = RowNames::of(&comparison);
        assert_eq!([of.name(&old), of.name(&new)], names);
    }
}

#[test]
fn the_headline_says_how_the_sides_were_measured_and_what_below_1_means() {
    let mut comparison = samples::comparison();
    for (pairing, reports, timing, begins) in [
        (
            Pairing::Turns,
            (4, 4),
            Timing::Native,
            "4 reports a side, in turns; ratios are new/old, below 1 = faster;",
        ),
        (
            Pairing::Apart,
            (1, 3),
            Timing::Emulated,
            "1 report before, 3 reports now; ratios are new/old, below 1 = faster;",
        ),
        (
            Pairing::Apart,
            (2, 1),
            Timing::Instructions,
            "2 reports before, 1 report now; ratios are new/old, below 1 = cheaper",
        ),
    ] {
        comparison.options.pairing = pairing;
        (comparison.old_reports, comparison.new_reports) = reports;
        comparison.timing = timing;
        let headline = comparison.headline();
        assert!(headline.starts_with(begins), "{headline}");
    }
    // Counts are compared without a band and without a seed.
    let headline = comparison.headline();
    assert!(headline.ends_with("= cheaper"), "{headline}");
}

#[test]
fn a_ratio_to_a_bound_is_one_too() {
    let mut comparison = samples::comparison();
    for (old, new, text) in [
        (false, false, Some("0.500")),
        (false, true, Some("<0.500")),
        (true, false, Some(">0.500")),
    ] {
        let row = &mut comparison.rows[0];
        row.ratio = Some(0.5);
        (row.old.is_bound, row.new.is_bound) = (old, new);
        assert_eq!(comparison.ratio(&comparison.rows[0]).as_deref(), text);
    }
    comparison.rows[0].ratio = None;
    assert_eq!(comparison.ratio(&comparison.rows[0]), None);
}
