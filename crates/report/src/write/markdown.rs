//! Blocks as GitHub-flavoured Markdown, to be pasted into an issue or a commit message.

use crate::table::{Align, Block, Cell, Paint, Table};
use crate::text::visible;

/// Writes blocks as Markdown. Text in blocks cannot act as markup or end a cell.
pub fn markdown(blocks: &[Block]) -> String {
    let blocks: Vec<String> = blocks.iter().map(block).collect();
    blocks.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Facts(facts) => facts
            .iter()
            .map(|(label, fact)| format!("- **{}**: {}\n", escape(label), escape(fact)))
            .collect(),
        Block::Text(Cell { text, paint, .. }) => match paint {
            Paint::Bold | Paint::Green | Paint::Red => format!("**{}**\n", escape(text)),
            Paint::Plain | Paint::Dim | Paint::Yellow => format!("{}\n", escape(text)),
        },
        Block::Detail(what, details) => format!("{}: {}\n", escape(&what.text), escape(details)),
        Block::Note(note) => format!("{}\n", escape(note)),
        Block::Table(table) => of_table(table),
    }
}

fn of_table(table: &Table) -> String {
    let mut text = match &table.title {
        Some(title) => format!("{}\n\n", escape(title)),
        None => String::new(),
    };
    let title = |(group, title): (&Option<String>, &String)| match group {
        Some(group) => format!(" {} {} |", escape(group), escape(title)),
        None => format!(" {} |", escape(title)),
    };
    let titles = table
        .columns
        .iter()
        .map(|column| (&column.group, &column.title));
    text.push_str(&format!("|{}\n|", titles.map(title).collect::<String>()));
    for column in &table.columns {
        text.push_str(match column.align {
            Align::Left => ":---|",
            Align::Right => "---:|",
        });
    }
    text.push('\n');
    for row in 0..table.rows() {
        text.push('|');
        for (place, column) in table.columns.iter().enumerate() {
            let cell = match (place, column.cells.get(row)) {
                (_, None) => String::new(),
                (0, Some(name)) => code(&name.text),
                (_, Some(other)) => self::cell(other),
            };
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    text
}

/// Good and bad numbers are bold.
fn cell(cell: &Cell) -> String {
    let text = escape(&format!("{}{}", cell.text, cell.mark));
    match cell.paint {
        Paint::Green | Paint::Red => format!("**{text}**"),
        Paint::Plain | Paint::Bold | Paint::Dim | Paint::Yellow => text,
    }
}

/// A name as code, if it can be written as code.
fn code(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '`' | '|' | '\\') || c == ' ';
    match !name.is_empty() && name.trim() == name && name.chars().all(is_plain) {
        true => format!("`{name}`"),
        false => escape(name),
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(&text.replace(['\n', '\r'], " ")).chars() {
        if matches!(c, '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
#[path = "markdown_test.rs"]
mod tests;
