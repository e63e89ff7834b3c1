//! The summary as a page: the source around each site, with a mark at its line.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::mutants::Mutant;
use super::summary::{Site, Summary};

/// Lines of source before and after a marked one.
const CONTEXT: u64 = 4;

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Which orders the tests need</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 75rem; padding: 0 1rem; color-scheme: light dark; }
pre { overflow-x: auto; border: 1px solid #8886; border-radius: 4px; padding: .5rem 0; }
pre > span { display: block; padding: 0 .7rem; }
pre .number { display: inline-block; width: 4.5em; opacity: .6; }
.needed { background: #2a62; }
.unneeded { background: #c222; }
.unclear { background: #ca22; }
summary { cursor: pointer; }
</style>
<h1>Which orders the tests need</h1>
<p>Green: needed. Red: stronger than these tests need, or a moved store that the code orders and no test finds. Yellow: kept by
another order, not reached, ended by a limit, or a move that a compiler may also make. These tests and models only.
";

/// What is said about one line.
#[derive(Default)]
struct Marks<'a> {
    sites: Vec<&'a Site>,
    mutants: Vec<&'a Mutant>,
}

/// The page.
pub(super) fn page(summary: &Summary) -> String {
    let mut files: BTreeMap<(&str, &str), BTreeMap<u64, Marks<'_>>> = BTreeMap::new();
    for site in summary.sites.iter().filter(|site| site.is_weakened()) {
        let source = &site.place.source;
        let lines = files.entry((&source.file, &source.path)).or_default();
        lines.entry(source.line).or_default().sites.push(site);
    }
    for mutant in &summary.mutants {
        let source = &mutant.store;
        let lines = files.entry((&source.file, &source.path)).or_default();
        lines.entry(source.line).or_default().mutants.push(mutant);
    }
    let mut page = HEAD.to_string();
    for ((file, path), lines) in &files {
        let name = if file.is_empty() {
            "Code without debug information"
        } else {
            file
        };
        page += &format!("<h2>{}</h2>\n", escape(name));
        let source = fs::read_to_string(path).unwrap_or_default();
        page += &excerpts(&source, lines, summary);
    }
    page
}

/// The marked lines, with the source around them if it could be read.
fn excerpts(source: &str, marked: &BTreeMap<u64, Marks<'_>>, summary: &Summary) -> String {
    let mut text = String::from("<pre>\n");
    let all: Vec<&str> = source.lines().collect();
    let mut shown: u64 = 0;
    for (&line, marks) in marked {
        let first = line.saturating_sub(CONTEXT).max(shown + 1).max(1);
        if shown > 0 && first > shown + 1 {
            text += "</pre>\n<pre>\n";
        }
        for number in first..line {
            text += &row(number, &all, "");
        }
        text += &row(line, &all, marks.class());
        text += &marks.words(summary);
        let next = marked
            .range(line + 1..)
            .next()
            .map_or(u64::MAX, |(next, _)| *next);
        shown = (line + CONTEXT).min(next - 1);
        for number in line + 1..=shown {
            text += &row(number, &all, "");
        }
    }
    text + "</pre>\n"
}

/// One line of source; empty past the end, or if the source cannot be read.
fn row(number: u64, all: &[&str], class: &str) -> String {
    let at = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let code = at.and_then(|at| all.get(at)).copied();
    match (code, class) {
        (None, "") => String::new(),
        (code, _) => format!(
            "<span class=\"{class}\"><span class=\"number\">{number}</span>{}</span>",
            escape(code.unwrap_or_default())
        ),
    }
}

impl Marks<'_> {
    fn class(&self) -> &'static str {
        let is_unneeded = self.sites.iter().any(|site| site.is_unneeded())
            || self.mutants.iter().any(|mutant| mutant.is_missed());
        let is_needed = self.sites.iter().any(|site| !site.needed_by.is_empty())
            || self
                .mutants
                .iter()
                .any(|mutant| !mutant.found_by.is_empty());
        match (is_unneeded, is_needed) {
            (true, _) => "unneeded",
            (false, true) => "needed",
            (false, false) => "unclear",
        }
    }

    /// What is said about the line, and the traces of the failures.
    fn words(&self, summary: &Summary) -> String {
        let mut text = String::new();
        for site in &self.sites {
            let place = &site.place;
            let models = summary.models.iter();
            let results = models.map(|model| format!("{model} {}", site.in_words(model)));
            let results: Vec<String> = results.collect();
            let line = format!(
                "{} {}, {}: {}",
                place.operation,
                site.order.name(),
                place.source.function(),
                results.join(", ")
            );
            let traces = site.effects.iter().filter_map(|(model, effect)| {
                let found = effect.breaks.as_ref()?;
                let head = format!(
                    "with {} under {model}, {}: {}",
                    found.order, found.test, found.what
                );
                Some((head, &found.trace))
            });
            text += &details(&line, traces);
        }
        for mutant in &self.mutants {
            let models = mutant.outcomes.keys();
            let results = models.map(|model| format!("{model} {}", mutant.in_words(model)));
            let results: Vec<String> = results.collect();
            let (operation, past) = (&mutant.operation, &mutant.past);
            let line = format!(
                "store moved past the {operation} {}, {}: {}",
                past.name(),
                past.function(),
                results.join(", ")
            );
            let traces = mutant.outcomes.iter().filter_map(|(model, outcome)| {
                let found = outcome.breaks.as_ref()?;
                Some((
                    format!("under {model}, {}: {}", found.test, found.what),
                    &found.trace,
                ))
            });
            text += &details(&line, traces);
        }
        text
    }
}

fn details<'a>(line: &str, traces: impl Iterator<Item = (String, &'a Vec<String>)>) -> String {
    let mut inside = String::new();
    for (head, trace) in traces {
        // A `String` takes everything.
        let _ = writeln!(inside, "{}", escape(&head));
        for step in trace {
            let _ = writeln!(inside, "    {}", escape(step));
        }
    }
    let line = escape(line);
    match inside.is_empty() {
        true => format!("<span>        ^ {line}</span>"),
        false => format!("<details><summary>        ^ {line}</summary>{inside}</details>"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
