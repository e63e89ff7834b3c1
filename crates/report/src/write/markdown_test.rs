//! Tests of blocks as Markdown.

use super::*;
use crate::sample;
use crate::table::Column;
use crate::{Look, Report, blocks};

fn whole(report: &Report) -> String {
    let look = Look {
        verbose: true,
        ..Look::default()
    };
    markdown(&blocks(report, look))
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!(whole(&sample::report()));
}

#[test]
fn the_markdown_of_instructions_names_the_unit() {
    let text = whole(&sample::counted());
    assert!(
        text.contains("| scenario | instructions | ± spread |"),
        "{text}"
    );
    assert!(text.contains("- **timing**: emulated"), "{text}");
    assert!(!text.contains("µs"), "{text}");
}

#[test]
fn every_suite_has_tables_in_markdown() {
    for report in [sample::two_backends(), sample::events(), sample::rings()] {
        let text = whole(&report);
        let rows = || text.lines().filter(|line| line.starts_with('|'));
        assert!(rows().count() >= 3, "{text}");
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let mut cells = table
                .lines()
                .map(|row| row.replace("\\|", "").matches('|').count());
            let first = cells.next();
            assert!(cells.all(|count| Some(count) == first), "{table}");
        }
    }
}

#[test]
fn text_of_the_host_cannot_become_markup() {
    assert_eq!(escape("a|b\n*c*"), "a\\|b \\*c\\*");
    assert_eq!(escape("\\<b>"), "\\\\\\<b>");
    let mut table = Table::new("row", ["<script>|`x`\n\\<b>\x1b"]);
    table.add(Column::numbers("new"), [Some(Cell::new("1", Paint::Red))]);
    let text = markdown(&[Block::Table(table)]);
    assert!(
        text.contains("| \\<script>\\|\\`x\\` \\\\\\<b>\\\\u{1b} | **1** |"),
        "{text}"
    );
}
