//! Tests of what is shown of a comparison.

use crate::compare::samples;
use crate::{Screen, markdown, terminal};

#[test]
fn the_table() {
    insta::assert_snapshot!(terminal(&samples::comparison().blocks(), Screen::default()));
}

#[test]
fn verdicts_have_colours() {
    let color = Screen {
        color: true,
        ..Screen::default()
    };
    let text = terminal(&samples::comparison().blocks(), color);
    assert!(text.contains("\x1b[31mslower\x1b[0m"));
    assert!(text.contains("\x1b[32mfaster\x1b[0m"));
    assert!(!terminal(&samples::comparison().blocks(), Screen::default()).contains('\x1b'));
}

#[test]
fn a_narrow_terminal_keeps_the_verdict() {
    let narrow = Screen {
        width: Some(30),
        ..Screen::default()
    };
    let text = terminal(&samples::comparison().blocks(), narrow);
    assert!(
        text.lines().all(|line| line.chars().count() <= 30),
        "{text}"
    );
    assert!(text.contains("slower"));
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(markdown(&samples::comparison().blocks()));
}
