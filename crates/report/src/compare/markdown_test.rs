//! Tests of the comparison as Markdown.

use super::*;
use crate::compare::samples;

#[test]
fn the_markdown() {
    insta::assert_snapshot!(markdown(&samples::comparison()));
}

#[test]
fn names_from_a_file_are_no_markup() {
    let mut comparison = samples::comparison();
    comparison.rows[0].key.command = "<script>|`x`\n\\<b>\x1b".to_owned();
    let text = markdown(&comparison);
    assert!(
        text.contains("| \\<script>\\|\\`x\\`\\\\u{a}\\\\\\<b>\\\\u{1b} |"),
        "{text}"
    );
}
