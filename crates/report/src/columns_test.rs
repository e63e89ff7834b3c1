//! Tests of column layout.

use super::*;

fn line(cells: &[&str]) -> CellRow {
    cells.iter().map(|text| Cell::from(*text)).collect()
}

#[test]
fn the_first_column_stands_left_and_the_others_right() {
    let text = layout(&[line(&["name", "median"]), line(&["a", "5 µs"])], false);
    assert_eq!(text, "name  median\na       5 µs\n");
}

#[test]
fn a_short_row_runs_on_and_widens_no_column() {
    let text = layout(
        &[
            line(&["name", "x", "y"]),
            line(&["a", "skipped: for a long reason"]),
        ],
        false,
    );
    assert_eq!(text, "name  x  y\na     skipped: for a long reason\n");
}

#[test]
fn paint_takes_no_room() {
    let cells = vec![Cell::new("ab", Paint::Green), Cell::from("c")];
    let text = layout(&[line(&["name", "x"]), cells], true);
    assert_eq!(text, "name  x\n\x1b[32mab\x1b[0m    c\n");
}

#[test]
fn no_line_ends_in_spaces() {
    let text = layout(&[line(&["name", "x"]), line(&["a", ""])], false);
    assert_eq!(text, "name  x\na\n");
}
