//! What readers must know to judge the numbers: warnings, the hosts, rows that were not measured, and footnotes.

use maud::{Markup, html};

use super::Run;
use crate::table::{Cell, Column, Table};
use crate::view::excuses::excuses;
use crate::view::header::footnotes;
use crate::view::vmms;
use crate::write::html;
use crate::{header, warnings};

/// The section.
pub(super) fn markup(runs: &[Run]) -> Markup {
    html! {
        section #facts aria-labelledby="facts-title" {
            h2 #facts-title { "Hosts and warnings" }
            (doubts(runs))
            (hosts(runs))
            (unmeasured(runs))
            (notes(runs))
        }
    }
}

/// The name of a run before a text about it, if there are several runs.
fn of(run: &Run, runs: &[Run]) -> Markup {
    html! { @if runs.len() > 1 { b { (run.name) ": " } } }
}

/// The reasons to doubt the numbers of a run.
pub(super) fn doubts_of(run: &Run) -> Vec<String> {
    let doubts = warnings(&run.report).into_iter();
    doubts.map(|warning| warning.to_string()).collect()
}

fn doubts(runs: &[Run]) -> Markup {
    html! {
        h3 #warnings { "Warnings" }
        @if runs.iter().all(|run| doubts_of(run).is_empty()) {
            p { "None. vmbell found no reason to doubt these numbers." }
        } @else {
            ul { @for run in runs { @for doubt in doubts_of(run) {
                li { (of(run, runs)) (doubt) }
            } } }
        }
    }
}

/// The facts of all runs side by side, with a mark if they differ.
fn hosts(runs: &[Run]) -> Markup {
    let facts: Vec<Vec<(String, String)>> = runs.iter().map(facts).collect();
    let mut labels: Vec<&str> = Vec::new();
    for (label, _) in facts.iter().flatten() {
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    let fact = |of: &[(String, String)], label: &str| {
        let mut facts = of.iter();
        facts
            .find(|(other, _)| other == label)
            .map(|(_, text)| text.clone())
    };
    let name = |label: &&str| {
        let differs = facts
            .iter()
            .any(|of| fact(of, label) != fact(&facts[0], label));
        match differs {
            true => format!("{label} (differs)"),
            false => (*label).to_owned(),
        }
    };
    let mut table = Table {
        title: Some("Where and how it was measured".to_owned()),
        ..Table::new("", labels.iter().map(name))
    };
    for (run, of) in runs.iter().zip(&facts) {
        let title = if runs.len() > 1 { &*run.name } else { "" };
        let cells = labels.iter().map(|label| fact(of, label).map(Cell::from));
        table.add(Column::words(title), cells);
    }
    html! {
        h3 { "Where and how" }
        (html::table(&table, &|_| None))
    }
}

/// The facts of one run, as labels and texts.
fn facts(run: &Run) -> Vec<(String, String)> {
    let report = &run.report;
    if !report.vmms().is_empty() {
        return vmms::labels(report);
    }
    let named = |(label, text): (&str, String)| (label.to_owned(), text);
    let mut facts: Vec<(String, String)> = header(report).into_iter().map(named).collect();
    for (name, value) in &report.host.kvm_params {
        facts.push((name.clone(), value.clone()));
    }
    facts
}

fn unmeasured(runs: &[Run]) -> Markup {
    html! {
        @if runs.iter().any(|run| !excuses(&run.report).is_empty()) {
            h3 { "Not measured" }
            ul { @for run in runs { @for excuse in excuses(&run.report) {
                li { (of(run, runs)) (excuse.what(&run.report)) ": " (excuse.reason) }
            } } }
        }
    }
}

fn notes(runs: &[Run]) -> Markup {
    let mut notes: Vec<&str> = Vec::new();
    for note in runs.iter().flat_map(|run| footnotes(&run.report)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    if runs
        .iter()
        .any(|run| run.report.vmms().iter().any(|vmm| vmm.emulated))
    {
        notes.push(vmms::EMULATED);
    }
    html! {
        h3 { "How to read the numbers" }
        ul {
            li { "± spread: 1.4826 times the median absolute deviation of the runs, as a share of their median" }
            li { "95 % CI: a bootstrap over whole rounds, so that drift common to both rows cancels out" }
            @if runs.len() > 1 {
                li { "to first file: the ratio of the medians of two runs. vmbell compare shows whether it is more than chance." }
            }
            @for note in notes { li { (note) } }
        }
    }
}
