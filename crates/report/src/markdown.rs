//! The report as Markdown, to be pasted into an issue or a commit message.

use std::fmt::Write;

use super::Group;
use super::header::{below_one, excuse, footnotes, header, median_title};
use super::model::{PercentilesOf, Ratio, Report, Row, Unit};
use super::units;

/// Writes `report` as GitHub-flavoured Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for (label, line) in header(report) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "- **{label}**: {}", escape(&line));
    }
    for (group, title) in [
        (Group::Scenario, "Scenario"),
        (Group::Floor, "Floor"),
        (Group::Debug, "Debug"),
    ] {
        let rows = report.group(group);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "\n| {title} | {} | Spread | p99 | Rate | Light/op | Heavy/op | {} | 95 % CI |\n\
             |:---|---:|---:|---:|---:|---:|---:|---:|:---:|",
            capitalized(median_title(report)),
            format_args!("to {}", report.ratios_to)
        );
        for row in rows {
            let _ = writeln!(text, "| `{}` | {} |", row.command, cells(row, report.unit));
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
            let ratio = &highlight.ratio;
            let _ = writeln!(
                text,
                "- **{}** [{}]: {} (`{}` / `{}`)",
                units::ratio(ratio.value),
                interval(ratio),
                highlight.text,
                highlight.new,
                ratio.reference
            );
        }
    }
    text
}

/// The cells behind the name.
fn cells(row: &Row, unit: Unit) -> String {
    let Some(median) = row.median_ns else {
        return format!("{} | | | | | | |", escape(&excuse(row)));
    };
    let mark = match row.percentiles_of {
        PercentilesOf::Operations => "\\*",
        PercentilesOf::Runs => "",
    };
    let exits = |pick: fn(&super::Exits) -> f64| {
        row.exits
            .as_ref()
            .map_or(String::new(), |exits| units::per_op(pick(exits)))
    };
    [
        units::measured(median, unit),
        row.spread.map_or(String::new(), units::percent),
        row.percentiles_ns.map_or(String::new(), |p| {
            format!("{}{mark}", units::measured(p.p99, unit))
        }),
        super::terminal::rate(row, median, unit),
        exits(|exits| exits.light),
        exits(|exits| exits.heavy),
        row.ratio
            .as_ref()
            .map_or(String::new(), |ratio| units::ratio(ratio.value)),
        row.ratio.as_ref().map_or(String::new(), interval),
    ]
    .join(" | ")
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn interval(ratio: &Ratio) -> String {
    format!(
        "{} to {}",
        units::ratio(ratio.ci_low),
        units::ratio(ratio.ci_high)
    )
}

/// Text from the host (a CPU's name, an error) must not end a cell or become markup.
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
