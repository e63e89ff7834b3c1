//! The report as Markdown, to be pasted into an issue or a commit message.

use std::fmt::Write;

use super::Report;
use super::cells::{Cells, RatioCells, tables};
use super::header::{below_one, footnotes, header, median_title};

/// Writes `report` as GitHub-flavoured Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (label, line) in header(report) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "- **{label}**: {}", escape(&line));
    }
    for table in tables(report) {
        let _ = writeln!(
            text,
            "\n| {} | {} | Spread | p99 | Rate | Light/op | Heavy/op | to {} | 95 % CI |\n\
             |:---|---:|---:|---:|---:|---:|---:|---:|:---:|",
            capitalized(table.group.name()),
            capitalized(median_title(report)),
            report.ratios_to
        );
        for line in table.lines {
            let _ = writeln!(text, "| `{}` | {} |", line.name, cells(line.cells));
        }
    }
    for note in footnotes(report) {
        let _ = writeln!(text, "\n{}", escape(note));
    }
    if !report.highlights.is_empty() {
        let _ = writeln!(
            text,
            "\nRatios that matter (new/old, below 1 = {}):\n",
            below_one(report)
        );
        for highlight in &report.highlights {
            let ratio = RatioCells::of(&highlight.ratio);
            let _ = writeln!(
                text,
                "- **{}** [{}]: {} (`{}` / `{}`)",
                ratio.value,
                interval(&ratio),
                highlight.text,
                highlight.new,
                highlight.ratio.reference
            );
        }
    }
    text
}

/// The cells that follow the name.
fn cells(cells: Cells) -> String {
    let numbers = match cells {
        Cells::Measured(numbers) => numbers,
        Cells::Excuse(excuse, _) => return format!("{} | | | | | | |", escape(&excuse)),
    };
    let [light, heavy] = numbers.exits.unwrap_or_default();
    let interval = numbers.ratio.as_ref().map(interval).unwrap_or_default();
    [
        numbers.median,
        numbers.spread.unwrap_or_default(),
        escape(&numbers.p99.unwrap_or_default()),
        numbers.rate.unwrap_or_else(|| "-".to_owned()),
        light,
        heavy,
        numbers.ratio.map_or_else(String::new, |ratio| ratio.value),
        interval,
    ]
    .join(" | ")
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn interval(ratio: &RatioCells) -> String {
    match &ratio.interval {
        Some([low, high]) => format!("{low} to {high}"),
        None => "-".to_owned(),
    }
}

/// Text from the host (a CPU's name, an error) must neither end a cell nor become markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '[' | ']' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
#[path = "markdown_test.rs"]
mod tests;
