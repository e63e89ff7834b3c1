//! Tests of what is shown of a comparison.

use crate::compare::{Verdict, samples};
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
