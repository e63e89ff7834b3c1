//! Tests of the comparison on a terminal.

use super::*;
use crate::compare::samples;

#[test]
fn the_table() {
    insta::assert_snapshot!(terminal(&samples::comparison(), Look::default()));
}

#[test]
fn verdicts_have_colours() {
    let color = Look {
        color: true,
        ..Look::default()
    };
    let text = terminal(&samples::comparison(), color);
    assert!(text.contains("\x1b[31mslower\x1b[0m"));
    assert!(text.contains("\x1b[32mfaster\x1b[0m"));
    assert!(!terminal(&samples::comparison(), Look::default()).contains('\x1b'));
}

#[test]
fn a_narrow_terminal_keeps_the_verdict() {
    let narrow = Look {
        width: Some(30),
        ..Look::default()
    };
    let text = terminal(&samples::comparison(), narrow);
    assert!(
        text.lines().all(|line| line.chars().count() <= 30),
        "{text}"
    );
    assert!(text.contains("slower"));
}

#[test]
fn names_from_a_file_cannot_command_the_terminal() {
    let mut comparison = samples::comparison();
    comparison.rows[0].key.command = "\x1b[2Jgone\r".to_owned();
    comparison.differences[0].old = vec!["\x1b]0;title\x07".to_owned()];
    let text = terminal(&comparison, Look::default());
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert!(text.contains("\\u{1b}[2Jgone\\u{d}"), "{text}");
}
