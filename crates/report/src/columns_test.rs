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
fn the_width_is_that_of_the_widest_line() {
    let rows = [line(&["name", "x", "yy"]), line(&["a", "median"])];
    assert_eq!(width(&rows), "name  median  yy".len());
    assert_eq!(width(&[]), 0);
}

#[test]
fn paint_takes_no_room() {
    let cells = vec![Cell::new("ab", Paint::Green), Cell::from("c")];
    let text = layout(&[line(&["name", "x"]), cells], true);
    assert_eq!(text, "name  x\n\x1b[32mab\x1b[0m    c\n");
}

#[test]
fn a_wide_character_takes_two_cells() {
    let text = layout(&[line(&["仮想機械", "x"]), line(&["a", "速い"])], false);
    assert_eq!(text, "仮想機械     x\na         速い\n");
}

#[test]
fn no_line_ends_in_spaces() {
    let text = layout(&[line(&["name", "x"]), line(&["a", ""])], false);
    assert_eq!(text, "name  x\na\n");
}
