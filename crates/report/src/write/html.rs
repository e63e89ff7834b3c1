//! Tables in HTML, for the page. `maud` escapes their texts.

use maud::{Markup, html};

use crate::table::{Align, Cell, Column, Paint, Table};

/// Writes a table, which scrolls by itself where the window is narrow. `of_group` has the class of a group's title.
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
                    tr {
                        th scope="col" { (names.title) }
                        @for (place, column) in columns.iter().enumerate() {
                            th class=[class(place, None)] scope="col" { (column.title) }
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

/// The groups of columns, each with the place of its first one.
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
