//! The first screen: what was found, in words, and one chart of the rows that answer the usual questions.

use maud::{Markup, html};

use super::Run;
use super::chart::{self, Floors};
use super::column::{Column, Line, lines};
use super::facts;
use super::section::Section;
use crate::cells::RatioCells;
use crate::{Report, Row, Timing, Vmm, header, vmm_table};

/// The rows that the headline can be about, the best first, each with its name in a sentence.
const DOORBELLS: [(&str, &str); 4] = [
    ("portio-datamatch-eventfd", "datamatch doorbell"),
    ("mmio-datamatch-eventfd", "datamatch doorbell"),
    ("portio-wildcard-eventfd", "doorbell"),
    ("mmio-wildcard-eventfd", "doorbell"),
];

/// How many rows the first chart has at most.
const SHOWN: usize = 10;

/// What the page says first.
pub(super) fn headline(columns: &[Column<'_>]) -> String {
    let Some(first) = columns
        .iter()
        .find(|column| !column.emulates_kernel_mode())
        .or(columns.first())
    else {
        return "Nothing was measured".to_owned();
    };
    if first.report.common.timing == Timing::Emulated {
        return "An emulated CPU: exits were counted, and times say nothing".to_owned();
    }
    if !first.report.vmms().is_empty() {
        return least(first.report);
    }
    if let Some(work) = first.report.work() {
        return format!(
            "What one {} costs in {} ways",
            work.operation,
            measured(&[*first])
        );
    }
    let about = if columns.iter().any(|column| column.backend != first.backend) {
        format!(" on {}", first.backend)
    } else {
        " here".to_owned()
    };
    if let Some((what, row)) = doorbell(first) {
        return format!("A {what} {}{about}", share(first.report, row));
    }
    match first
        .report
        .paths()
        .and_then(|paths| paths.highlights.first())
    {
        Some(highlight) => {
            let ratio = RatioCells::of(&highlight.ratio).value;
            format!("{ratio} of the {}: {}", unit(first.report), highlight.text)
        }
        None => format!("What {} rows cost{about}", measured(columns)),
    }
}

/// The row that says most about doorbells, with its name.
fn doorbell<'r>(column: &Column<'r>) -> Option<(&'static str, &'r Row)> {
    DOORBELLS.into_iter().find_map(|(name, what)| {
        let mut rows = column.rows(Section::GuestToHost);
        let row = rows.find(|row| row.command == name)?;
        let reference = &row.ratio()?.reference;
        reference.ends_with("-no-eventfd").then_some((what, row))
    })
}

/// `costs 0.14 of a device-model write`.
fn share(report: &Report, row: &Row) -> String {
    let Some(ratio) = row.ratio() else {
        return String::new();
    };
    let of = if ratio.value < 1.0 { "of" } else { "times" };
    let ratio = RatioCells::of(ratio).value;
    match report.common.timing {
        Timing::Instructions => {
            format!("takes {ratio} {of} the instructions of a device-model write")
        }
        Timing::Native | Timing::Emulated => format!("costs {ratio} {of} a device-model write"),
    }
}

const fn unit(report: &Report) -> &'static str {
    match report.common.timing {
        Timing::Instructions => "instructions",
        Timing::Native | Timing::Emulated => "time",
    }
}

/// How many rows have numbers.
fn measured(columns: &[Column<'_>]) -> usize {
    let each = Section::ALL.into_iter();
    each.map(|section| lines(section, columns).len()).sum()
}

/// Which VMM has the least number in most rows.
fn least(report: &Report) -> String {
    let vmms: Vec<&Vmm> = vmm_table::measured(report);
    let names = vmm_table::names(report);
    let wins = |vmm: &Vmm| {
        let is_least = |name: &&&str| vmm_table::is_least(report, &vmms, vmm, name);
        names.iter().filter(is_least).count()
    };
    let most = vmms
        .iter()
        .map(|vmm| (wins(vmm), &vmm.name))
        .max_by_key(|(wins, _)| *wins);
    match most {
        Some((wins, name)) if wins > 0 => format!(
            "{name} takes the least {} in {wins} of {} rows, among {} VMMs",
            unit(report),
            names.len(),
            vmms.iter().filter(|vmm| !vmm.emulated).count()
        ),
        _ => format!("What {} rows cost in {} VMMs", names.len(), vmms.len()),
    }
}

/// The header of the page: the headline, the verdict's sentences, and where and when it was measured.
pub(super) fn top(headline: &str, runs: &[Run], columns: &[Column<'_>]) -> Markup {
    let doubts: usize = runs.iter().map(|run| facts::doubts_of(run).len()).sum();
    html! {
        header {
            p.where { @for run in runs { (place(run, runs.len() > 1)) } }
            h1 { (headline) }
            (each_run(columns))
            @if runs.len() > 1 {
                details {
                    summary { "What each run says" }
                    @for run in runs { p { b { (run.name) } } (verdict(run)) }
                }
            } @else {
                @for run in runs { (verdict(run)) }
            }
            @for run in runs {
                @if let Some(timing) = header::timing(&run.report) {
                    p.doubt { @if runs.len() > 1 { b { (run.name) ": " } } (timing) }
                }
            }
            @if doubts > 0 {
                p.doubt {
                    a href="#warnings" {
                        @if doubts == 1 { "1 warning" } @else { (doubts) " warnings" }
                    }
                    " about how far these numbers can be trusted."
                }
            }
        }
    }
}

/// The verdict of a run: a list for each sentence, with an item for each thing that a reader wants to know.
fn verdict(run: &Run) -> Markup {
    html! {
        @for sentence in run.report.paths().iter().flat_map(|paths| &paths.verdict) {
            ul.verdict { @for part in sentence.split("; ") { li { (part) } } }
        }
    }
}

/// Where and when a run was measured, in short.
fn place(run: &Run, is_named: bool) -> Markup {
    let report = &run.report;
    html! {
        span {
            @if is_named { b { (run.name) } " " }
            (report.common.host.cpu) ", " (report.common.host.kernel) ", " (report.common.started)
            @if report.ended_early() { ", ended early" }
        }
    }
}

/// The headline's figure for every column, with its interval, if there are several.
fn each_run(columns: &[Column<'_>]) -> Markup {
    let figures: Vec<(&Column<'_>, String)> = columns
        .iter()
        .filter(|column| column.report.common.timing != Timing::Emulated)
        .filter_map(|column| {
            let (what, row) = doorbell(column)?;
            let cells = RatioCells::of(row.ratio()?);
            let interval = cells.interval.map_or_else(String::new, |[low, high]| {
                format!(", with a 95 % interval of {low} to {high}")
            });
            let reference = &row.ratio()?.reference;
            let mut rows = column.rows(Section::GuestToHost);
            let old = rows.find(|other| other.command == *reference);
            let (new, old) = (column.numbers(row)?.median, column.numbers(old?)?.median);
            let text = format!(
                "{what} {new}, device-model write {old}: {}{interval}",
                cells.value
            );
            Some((column, text))
        })
        .collect();
    html! {
        @if !figures.is_empty() {
            ul.figures {
                @for (column, text) in figures {
                    li class=[column.mark().map(|_| column.class())] {
                        @if column.mark().is_some() { b { (column.letter()) " " (column.title()) } ": " }
                        (text)
                    }
                }
            }
        }
    }
}

/// The names of the rows that the first screen is about.
pub(super) fn first_names<'r>(columns: &[Column<'r>]) -> Vec<&'r str> {
    let (_, lines) = first_lines(columns);
    lines.iter().map(|line| line.name).collect()
}

/// The chart of the first screen.
pub(super) fn overview(columns: &[Column<'_>]) -> Markup {
    let (section, lines) = first_lines(columns);
    let mut floors = Floors::of(section, columns);
    floors.keep_few();
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "At a glance" }
            (chart::markup(&lines, columns, &floors))
        }
    }
}

/// The rows of the highlights, or the first rows if there are none.
fn first_lines<'r>(columns: &[Column<'r>]) -> (Section, Vec<Line<'r>>) {
    let all = Section::ALL.map(|section| (section, lines(section, columns)));
    let doorbell = columns.iter().find_map(|column| Some(doorbell(column)?.1));
    let is_highlit = |name: &str| {
        if doorbell.is_some_and(|row| row.command == name) {
            return true;
        }
        let paths = columns.iter().filter_map(|column| column.report.paths());
        let mut highlights = paths.flat_map(|paths| &paths.highlights);
        highlights.any(|highlight| highlight.new == name || highlight.ratio.reference == name)
    };
    let mut highlit: Vec<Line<'r>> = Vec::new();
    let mut rest = (Section::GuestToHost, Vec::new());
    for (section, lines) in all {
        for line in lines {
            if is_highlit(line.name) && section != Section::Floors {
                highlit.push(line);
            } else if rest.1.is_empty() || rest.0 == section {
                rest.0 = section;
                rest.1.push(line);
            }
        }
    }
    let (section, mut lines) = if highlit.is_empty() {
        rest
    } else {
        (Section::GuestToHost, highlit)
    };
    lines.truncate(SHOWN);
    (section, lines)
}
