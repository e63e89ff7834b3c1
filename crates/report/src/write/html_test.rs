//! Tests of tables in HTML.

use super::table as written;
use crate::table::{Cell, Column, Paint, Table};

fn number(text: &str) -> Option<Cell> {
    Some(Cell::from(text))
}

#[test]
fn a_group_spans_its_columns_and_has_its_class() {
    let mut table = Table::new("path", ["a"]);
    for (group, title) in [("kvm", "median"), ("kvm", "ratio"), ("usermode", "median")] {
        let column = Column::numbers(title).in_group(Some(group.to_owned()));
        table.add(column, [number("1")]);
    }
    let class = |group: &str| (group == "kvm").then(|| "c0".to_owned());
    let text = written(&table, &class).into_string();
    assert!(
        text.contains(r#"<th class="first c0" colspan="2" scope="colgroup">kvm</th>"#),
        "{text}"
    );
    assert!(
        text.contains(r#"colspan="1" scope="colgroup">usermode</th>"#),
        "{text}"
    );
}

#[test]
fn texts_are_no_markup_and_links_lead_to_the_page() {
    let mut table = Table::new("path", ["<b>"]);
    let cell = Cell {
        link: Some("samples-0".to_owned()),
        mark: "*",
        ..Cell::new("1 & 2", Paint::Red)
    };
    table.add(Column::numbers("median"), [Some(cell)]);
    let text = written(&table, &|_| None).into_string();
    assert!(text.contains("&lt;b&gt;"), "{text}");
    assert!(
        text.contains(r##"<a href="#samples-0"><b>1 &amp; 2*</b></a>"##),
        "{text}"
    );
}
