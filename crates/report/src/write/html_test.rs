//! Tests of tables in HTML.

use super::{html, table as written};
use crate::table::{Block, Cell, Column, Paint, Table};

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

#[test]
fn a_page_has_every_block_and_cannot_be_commanded() {
    let blocks = [
        Block::Facts(vec![("host".to_owned(), "a <b>".to_owned())]),
        Block::Text(Cell::new("1 slower", Paint::Red)),
        Block::Detail(Cell::from("skipped"), "\u{202e}why".to_owned()),
        Block::Note("a note".to_owned()),
        Block::Table(Table::new("path", ["row-1"])),
    ];
    let page = html("compared", &blocks);
    for part in [
        "<td class=\"what\">a &lt;b&gt;</td>",
        "<p><b>1 slower</b></p>",
        "<p>skipped: \\u{202e}why</p>",
        "<p class=\"note\">a note</p>",
        "<th scope=\"row\">row-1</th>",
        "<title>compared - vmbell</title>",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_column_without_a_title_has_no_empty_heading() {
    let mut table = Table::new("", ["host"]);
    table.add(Column::words(""), [number("a")]);
    let bare = written(&table, &|_| None).into_string();
    assert!(bare.contains("<thead></thead>"), "{bare}");
    table.columns[1].title = "b.json".to_owned();
    let titled = written(&table, &|_| None).into_string();
    assert!(
        titled.contains(r#"<tr><td></td><th class="what" scope="col">b.json</th></tr>"#),
        "{titled}"
    );
}
