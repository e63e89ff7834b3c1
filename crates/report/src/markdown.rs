//! The report as Markdown, to be pasted into an issue or a commit message.

use std::fmt::Write;

use super::Report;
use super::answer::answer;
use super::cells::{Numbers, RatioCells, excuses, tables};
use super::header::{below_one, footnotes, header, median_title};
use super::{Exporter, TimeUnit, vmm_table};

/// The format as an export.
#[derive(Debug)]
pub(super) struct Markdown;

impl Exporter for Markdown {
    fn option(&self) -> &'static str {
        "export-markdown"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn help(&self) -> &'static str {
        "Write the report as Markdown; - is stdout"
    }

    fn write(&self, report: &Report, unit: Option<TimeUnit>) -> String {
        markdown(report, unit)
    }
}

/// Writes `report` as GitHub-flavoured Markdown, with times in `unit` or in the one that fits each.
pub fn markdown(report: &Report, unit: Option<TimeUnit>) -> String {
    if !report.vmms().is_empty() {
        return vmm_table::markdown(report, unit);
    }
    let mut text = String::new();
    for (label, line) in header(report) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "- **{label}**: {}", escape(&line));
    }
    let paths = report.paths();
    for backend in &report.backends {
        for sentence in answer(report, &backend.name) {
            let _ = writeln!(
                text,
                "\n**{}{}**",
                report.prefix(&backend.name),
                escape(&sentence)
            );
        }
    }
    for table in tables(report, unit) {
        let several = table.backends.len() > 1;
        let (backend, left) = if several {
            ("Backend | ", ":---|")
        } else {
            ("", "")
        };
        let has_memory = [
            table.has(|numbers| numbers.memory.is_some()),
            table.has(|numbers| numbers.kernel_memory.is_some()),
        ];
        let titles = [" | Memory", " | Kernel memory"];
        let memory: String = chosen(titles, has_memory).collect();
        let right: String = chosen(["---:|"; 2], has_memory).collect();
        let _ = writeln!(
            text,
            "\n| {} | {backend}{} | Spread | p99 | Rate | Light/op | Heavy/op{memory} | to {} | 95 % CI |\n\
             |:---|{left}---:|---:|---:|---:|---:|---:|{right}---:|:---:|",
            capitalized(table.group.name()),
            capitalized(median_title(report)),
            paths.map_or("reference", |paths| &paths.ratios_to)
        );
        for line in &table.lines {
            for (backend, numbers) in table.backends.iter().zip(&line.numbers) {
                let Some(numbers) = numbers else { continue };
                let backend = if several {
                    format!("{backend} | ")
                } else {
                    String::new()
                };
                let _ = writeln!(
                    text,
                    "| `{}` | {backend}{} |",
                    line.name,
                    cells(numbers, has_memory)
                );
            }
        }
    }
    for excuse in excuses(report) {
        let what = escape(&excuse.what(report));
        let _ = writeln!(text, "\n{what}: {}", escape(excuse.reason));
    }
    for note in footnotes(report) {
        let _ = writeln!(text, "\n{}", escape(note));
    }
    let highlights = paths.map_or(&[][..], |paths| &paths.highlights);
    if !highlights.is_empty() {
        let _ = writeln!(
            text,
            "\nRatios that matter (new/old, below 1 = {}):\n",
            below_one(report)
        );
        for highlight in highlights {
            let ratio = RatioCells::of(&highlight.ratio);
            let _ = writeln!(
                text,
                "- **{}** [{}]: {}{} (`{}` / `{}`)",
                ratio.value,
                interval(&ratio),
                report.prefix(&highlight.backend),
                highlight.text,
                highlight.new,
                highlight.ratio.reference
            );
        }
    }
    text
}

/// Those of two items whose columns the table has.
fn chosen<T>(items: [T; 2], has: [bool; 2]) -> impl Iterator<Item = T> {
    let both = items.into_iter().zip(has);
    both.filter_map(|(item, has)| has.then_some(item))
}

/// The cells that follow the name.
fn cells(numbers: &Numbers, has_memory: [bool; 2]) -> String {
    let or_dash = |text: &Option<String>| escape(text.as_deref().unwrap_or("-"));
    let [light, heavy] = numbers.exits.clone().unwrap_or_default();
    let ratio = numbers.ratio.as_ref();
    let mut cells = vec![
        numbers.median.clone(),
        or_dash(&numbers.spread),
        or_dash(&numbers.p99),
        or_dash(&numbers.rate),
        light,
        heavy,
    ];
    let memory = [&numbers.memory, &numbers.kernel_memory];
    cells.extend(chosen(memory, has_memory).map(or_dash));
    cells.push(ratio.map_or_else(String::new, |ratio| ratio.value.clone()));
    cells.push(ratio.map(interval).unwrap_or_default());
    cells.join(" | ")
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
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' => {
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
