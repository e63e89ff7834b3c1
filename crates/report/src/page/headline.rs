//! The first screen: what was found, in words, and one chart of the rows that answer the usual questions.

use maud::{Markup, html};

use super::Run;
use super::chart::{self, Floors};
use super::column::{PageColumn, PageLine, lines};
use super::facts;
use super::section::PageSection;
use crate::view::answer::{answer, doorbell};
use crate::view::{header, numbers, vmms};
use crate::{Report, Timing, Vmm, units};

/// The maximum number of rows of the first chart.
const SHOWN: usize = 10;

/// The first sentence of the page.
pub(super) fn headline(columns: &[PageColumn<'_>]) -> String {
    let Some(first) = columns
        .iter()
        .find(|column| !column.emulates_kernel_mode())
        .or(columns.first())
    else {
        return "Nothing was measured".to_owned();
    };
    if first.report.timing == Timing::Emulated {
        return "An emulated CPU: exits were counted, times mean nothing".to_owned();
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
    let is_other =
        |column: &PageColumn<'_>| column.backend != first.backend && !column.emulates_kernel_mode();
    let about = if columns.iter().any(is_other) {
        format!(" on {}", first.backend)
    } else {
        " here".to_owned()
    };
    if let Some(sentence) = answer(first.report, first.backend).first() {
        let sentence = sentence.trim_end_matches('.');
        return match columns.iter().any(is_other) {
            true => format!("{}: {sentence}", first.backend),
            false => sentence.to_owned(),
        };
    }
    match first
        .report
        .paths()
        .and_then(|paths| paths.highlights.first())
    {
        Some(highlight) => {
            let change = numbers::change(&highlight.ratio, first.report.timing);
            format!("In {}, {change}: {}", unit(first.report), highlight.text)
        }
        None => format!(
            "What {} cost{about}",
            units::plural(measured(columns), "row")
        ),
    }
}

const fn unit(report: &Report) -> &'static str {
    match report.timing {
        Timing::Instructions => "instructions",
        Timing::Native | Timing::Emulated => "time",
    }
}

/// The number of rows that have numbers.
fn measured(columns: &[PageColumn<'_>]) -> usize {
    let each = PageSection::ALL.into_iter();
    each.map(|section| lines(section, columns).len()).sum()
}

/// Says which VMM has the lowest number in the most rows.
fn least(report: &Report) -> String {
    let (vmms, names) = (vmms::measured(report), vmms::names(report));
    let wins = |vmm: &Vmm| {
        let is_least = |name: &&&str| vmms::is_least(report, &vmms, vmm, name);
        names.iter().filter(is_least).count()
    };
    let most = vmms
        .iter()
        .map(|vmm| (wins(vmm), &vmm.name))
        .max_by_key(|(wins, _)| *wins);
    match most {
        Some((wins, name)) if wins > 0 => format!(
            "{name} takes the least {} in {wins} of {}, among {}",
            unit(report),
            units::plural(names.len(), "row"),
            units::plural(vmms.iter().filter(|vmm| !vmm.emulated).count(), "VMM")
        ),
        _ => format!(
            "What {} cost in {}",
            units::plural(names.len(), "row"),
            units::plural(vmms.len(), "VMM")
        ),
    }
}

/// The header of the page: the headline, the answer's sentences, and where and when it was measured.
pub(super) fn top(headline: &str, runs: &[Run], columns: &[PageColumn<'_>]) -> Markup {
    let doubts: usize = runs.iter().map(|run| facts::doubts_of(run).len()).sum();
    html! {
        header {
            p.where { @for run in runs { (place(run, runs.len() > 1)) } }
            h1 { (headline) }
            (each_run(columns))
            (emulation(columns))
            @if runs.len() > 1 {
                details {
                    summary { "What each run says" }
                    @for run in runs { p { b { (run.name) } } (answers(run, None)) }
                }
            } @else {
                @for run in runs { (answers(run, Some(headline))) }
            }
            @for run in runs {
                @if let Some(timing) = header::timing(&run.report) {
                    p.doubt { @if runs.len() > 1 { b { (run.name) ": " } } (timing) }
                }
            }
            @if doubts > 0 {
                p.doubt {
                    a href="#warnings" {
                        (units::plural(doubts, "warning"))
                    }
                    " about these numbers."
                }
            }
        }
    }
}

/// What the rows of each backend of a run mean, with the backend's name if there are several backends. What the headline has
/// said is not repeated.
fn answers(run: &Run, headline: Option<&str>) -> Markup {
    let report = &run.report;
    let is_said = |sentence: &String| {
        headline.is_some_and(|headline| headline.ends_with(sentence.trim_end_matches('.')))
    };
    let of_backend = |name: &str| -> Vec<String> {
        let sentences = answer(report, name).into_iter();
        sentences.filter(|sentence| !is_said(sentence)).collect()
    };
    let backends = report.backends.iter();
    let all: Vec<(&str, Vec<String>)> = backends
        .map(|backend| (backend.name.as_str(), of_backend(&backend.name)))
        .filter(|(_, sentences)| !sentences.is_empty())
        .collect();
    html! {
        @for (backend, sentences) in &all {
            ul.answer { @for sentence in sentences { li {
                @if all.len() > 1 { (report.prefix(backend)) }
                (sentence)
            } } }
        }
    }
}

/// Where and when a run was measured, in brief.
fn place(run: &Run, is_named: bool) -> Markup {
    let report = &run.report;
    html! {
        span {
            @if is_named { b { (run.name) } " " }
            (report.host.cpu) ", " (report.host.kernel) ", " (report.started)
            @if report.ended_early() { ", ended early" }
        }
    }
}

/// The headline's figure for every column, with its interval, if there are several columns.
fn each_run(columns: &[PageColumn<'_>]) -> Markup {
    let figures: Vec<(&PageColumn<'_>, String)> = columns
        .iter()
        .filter(|column| column.report.timing != Timing::Emulated)
        .filter(|column| !column.emulates_kernel_mode())
        .filter_map(|column| {
            let row = doorbell(column.report, column.backend)?;
            let ratio = row.ratio()?;
            let interval = numbers::interval(ratio).map_or_else(String::new, |interval| {
                format!(" (ratio {}, 95 % CI {interval})", numbers::value(ratio))
            });
            let reference = &ratio.reference;
            let mut rows = column.rows(PageSection::GuestToHost);
            let old = rows.find(|other| other.command == *reference);
            let (new, old) = (column.median(row)?, column.median(old?)?);
            let change = numbers::change(ratio, column.report.timing);
            let text = format!("doorbell {new}, exit to the VMM {old}: {change}{interval}");
            Some((column, text))
        })
        .collect();
    html! {
        @if figures.len() > 1 {
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

/// Says which columns have costs that say nothing about hardware.
fn emulation(columns: &[PageColumn<'_>]) -> Markup {
    let emulating: Vec<String> = columns
        .iter()
        .filter(|column| column.emulates_kernel_mode())
        .map(PageColumn::title)
        .collect();
    html! {
        @if !emulating.is_empty() {
            p.doubt {
                (emulating.join(", "))
                " emulates the guest's kernel mode, so its costs say nothing about hardware."
            }
        }
    }
}

/// The names of the rows on the first screen.
pub(super) fn first_names<'r>(columns: &[PageColumn<'r>]) -> Vec<&'r str> {
    let (_, lines) = first_lines(columns);
    lines.iter().map(|line| line.name).collect()
}

/// The chart of the first screen. Columns whose costs say nothing about hardware are left out if there are others.
pub(super) fn overview(columns: &[PageColumn<'_>]) -> Markup {
    let mut kept = columns.to_vec();
    kept.retain(|column| !column.emulates_kernel_mode());
    let columns = if kept.is_empty() { columns } else { &kept };
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

/// The rows of the highlights, or the first rows if there are no highlights.
fn first_lines<'r>(columns: &[PageColumn<'r>]) -> (PageSection, Vec<PageLine<'r>>) {
    let all = PageSection::ALL.map(|section| (section, lines(section, columns)));
    let doorbell = columns
        .iter()
        .find_map(|column| doorbell(column.report, column.backend));
    let is_highlit = |name: &str| {
        if doorbell.is_some_and(|row| row.command == name) {
            return true;
        }
        let paths = columns.iter().filter_map(|column| column.report.paths());
        let mut highlights = paths.flat_map(|paths| &paths.highlights);
        highlights.any(|highlight| highlight.new == name || highlight.ratio.reference == name)
    };
    let mut highlit: Vec<PageLine<'r>> = Vec::new();
    let mut rest = (PageSection::GuestToHost, Vec::new());
    for (section, lines) in all {
        for line in lines {
            if is_highlit(line.name) && section != PageSection::Floors {
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
        (PageSection::GuestToHost, highlit)
    };
    lines.truncate(SHOWN);
    (section, lines)
}
