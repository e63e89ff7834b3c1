//! Snapshot of the Markdown.

use super::*;
use crate::sample;

#[test]
fn the_markdown() {
    insta::assert_snapshot!(markdown(&sample::report(), None));
}

#[test]
fn the_markdown_of_instructions_names_the_unit() {
    let text = markdown(&sample::counted(), None);
    assert!(text.contains("| Instructions | Spread |"), "{text}");
    assert!(text.contains("- **timing**: emulated"), "{text}");
    assert!(!text.contains("µs"), "{text}");
}

#[test]
fn every_row_of_a_table_has_as_many_cells() {
    let text = markdown(&sample::report(), None);
    for row in text.lines().filter(|line| line.starts_with('|')) {
        let cells = row.replace("\\|", "").matches('|').count();
        assert_eq!(cells, 10, "{row}");
    }
}

#[test]
fn text_of_the_host_cannot_become_markup() {
    assert_eq!(escape("a|b\n*c*"), "a\\|b \\*c\\*");
    assert_eq!(escape("\\<b>"), "\\\\\\<b>");
}
