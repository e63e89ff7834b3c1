//! Blocks in HTML, and the page around them, which needs nothing else: no network, no script, no font. `maud` escapes
//! all text; [`visible`] shows what markup cannot escape.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::table::{Align, Block, Cell, Column, Paint, Table};
use crate::text::visible;

/// What the page may load and run: only its own style sheet.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Writes blocks as a page with this title.
pub fn html(title: &str, blocks: &[Block]) -> String {
    let body = html! {
        main {
            h1 { (title) }
            @for block in blocks { (of_block(block)) }
        }
    };
    document(title, &body)
}

fn of_block(block: &Block) -> Markup {
    match block {
        Block::Facts(facts) => {
            let mut facts_table = Table::new("", facts.iter().map(|(label, _)| label));
            let texts = facts.iter().map(|(_, text)| Some(Cell::from(text)));
            facts_table.add(Column::words(""), texts);
            table(&facts_table, &|_| None)
        }
        Block::Text(sentence) => html! { p { (cell(sentence)) } },
        Block::Detail(what, details) => html! { p { (cell(what)) ": " (details) } },
        Block::Note(note) => html! { p.note { (note) } },
        Block::Table(of) => table(of, &|_| None),
    }
}

/// A whole page with this body.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " - vmbell" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body { (body) }
        }
    };
    // Applied to the finished page, so that no part of it can be missed.
    let page = markup.into_string();
    page.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Writes a table that scrolls by itself in narrow windows. `of_group` returns the CSS class of a group's title.
pub(crate) fn table(table: &Table, of_group: &dyn Fn(&str) -> Option<String>) -> Markup {
    let title = table.title.as_deref().unwrap_or_default();
    let Some((names, columns)) = table.columns.split_first() else {
        return html! {};
    };
    let groups = groups(columns);
    let has_groups = groups.iter().any(|(group, _)| group.is_some());
    let class = |place: usize, extra: Option<String>| {
        let is_first = has_groups && groups.iter().any(|(_, first)| *first == place);
        let is_of_words = columns[place].align == Align::Left;
        let words = [
            (is_first, "first"),
            (is_of_words && extra.is_none(), "what"),
        ];
        let words = words.into_iter().filter(|(is, _)| *is);
        let words: Vec<String> = words
            .map(|(_, word)| word.to_owned())
            .chain(extra)
            .collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(format!("Table: {title}")) {
            table class=[has_groups.then_some("many")] {
                caption { (title) }
                thead {
                    @if has_groups {
                        tr {
                            td {}
                            @for (place, (group, first)) in groups.iter().enumerate() {
                                @let next = groups.get(place + 1).map_or(columns.len(), |(_, next)| *next);
                                th class=[class(*first, group.and_then(of_group))] colspan=(next - first) scope="colgroup" {
                                    (group.unwrap_or_default())
                                }
                            }
                        }
                    }
                    @if table.columns.iter().any(|column| !column.title.is_empty()) {
                        tr {
                            (heading(&names.title, None))
                            @for (place, column) in columns.iter().enumerate() {
                                (heading(&column.title, class(place, None)))
                            }
                        }
                    }
                }
                tbody { @for (row, name) in names.cells.iter().enumerate() {
                    tr {
                        th scope="row" { (cell(name)) }
                        @for (place, column) in columns.iter().enumerate() {
                            td class=[class(place, None)] {
                                @if let Some(of_row) = column.cells.get(row) { (cell(of_row)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// The title of a column. A column without a title has no heading, because a screen reader would read it as empty.
fn heading(title: &str, class: Option<String>) -> Markup {
    html! {
        @if title.is_empty() { td {} }
        @else { th class=[class] scope="col" { (title) } }
    }
}

/// The groups of columns, each with the index of its first column.
fn groups(columns: &[Column]) -> Vec<(Option<&str>, usize)> {
    let mut groups: Vec<(Option<&str>, usize)> = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let group = column.group.as_deref();
        if groups.last().is_none_or(|(last, _)| *last != group) {
            groups.push((group, place));
        }
    }
    groups
}

fn cell(cell: &Cell) -> Markup {
    let text = html! { (cell.text) (cell.mark) };
    let text = match cell.paint {
        Paint::Green | Paint::Red => html! { b { (text) } },
        Paint::Plain | Paint::Bold | Paint::Dim | Paint::Yellow => text,
    };
    match &cell.link {
        Some(id) => html! { a href=(format!("#{id}")) { (text) } },
        None => text,
    }
}

#[cfg(test)]
#[path = "html_test.rs"]
mod tests;
