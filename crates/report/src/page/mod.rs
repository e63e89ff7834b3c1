//! One or more reports as one HTML page that needs nothing else: no network, no script, no font.
//!
//! Each section of the page is a file here, with a function from the page's [`columns`] to markup. `maud` escapes all
//! text in HTML, and `svg` escapes text in drawings. Drawings have lengths in per cent and colours from the style
//! sheet, so that one drawing works on a phone, in a wide window and on paper, by day and by night.

mod axis;
mod chart;
mod column;
mod draw;
mod events;
mod exits;
mod facts;
mod findings;
mod headline;
mod meaning;
mod recorded;
mod samples;
mod scale;
mod scans;
mod scatter;
mod section;
mod table;

use maud::{Markup, html};

use self::column::{PageColumn, columns};
pub use self::recorded::recorded_page;
use self::section::PageSection;
use super::Report;
use crate::write::html::document;

/// A report, and the name of the file that it was read from.
#[derive(Clone, Debug)]
pub struct Run {
    /// The report's name on the page.
    pub name: String,
    /// What was measured.
    pub report: Report,
}

#[cfg(test)]
impl Run {
    fn of(name: &str, report: Report) -> Self {
        Self {
            name: name.to_owned(),
            report,
        }
    }
}

/// Writes `runs` as one page. The first run is what the others are compared with.
pub fn page(runs: &[Run]) -> String {
    let columns = columns(runs);
    let sections: Vec<(PageSection, Markup)> = PageSection::ALL
        .into_iter()
        .filter_map(|section| Some((section, section::markup(section, &columns)?)))
        .collect();
    let headline = headline::headline(&columns);
    let body = html! {
        a.skip href="#paths" { "To the numbers" }
        (headline::top(&headline, runs, &columns))
        main #paths {
            (headline::overview(&columns))
            (contents(&sections, &columns))
            (scans::markup(&columns))
            (meaning::markup(&columns))
            @for (_, markup) in &sections { (markup) }
            (exits::markup(&columns))
            (events::markup(&columns))
            (scatter::markup(&columns))
            (facts::markup(runs))
            (samples::markup(&columns))
        }
        footer { p {
            "Made by " code { "vmbell report" } " from "
            @for (place, run) in runs.iter().enumerate() {
                @if place > 0 { ", " }
                code { (run.name) }
            }
            ". Every ratio is new over old: below 1 is cheaper."
        } }
    };
    document(&headline, &body)
}

/// Links to the sections.
fn contents(sections: &[(PageSection, Markup)], columns: &[PageColumn<'_>]) -> Markup {
    html! {
        nav aria-label="Sections" { ul {
            @if scans::has_any(columns) { li { a href="#scans" { "Scans" } } }
            @if meaning::has_any(columns) { li { a href="#cores" { "Cores" } } }
            @for (section, _) in sections {
                li { a href=(format!("#{}", section.id())) { (section.title()) } }
            }
            @if exits::has_any(columns) { li { a href="#exits" { "Exits" } } }
            li { a href="#scatter" { "Scatter" } }
            li { a href="#facts" { "Hosts and warnings" } }
            li { a href="#samples" { "Samples" } }
        } }
    }
}

#[cfg(test)]
#[path = "page_test.rs"]
mod tests;
