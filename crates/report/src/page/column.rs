//! The columns of the page: the backends or VMMs of every report.

use std::collections::HashMap;

use super::Run;
use super::section::PageSection;
use crate::view::numbers;
use crate::{Report, Row, Timing};

/// One backend, or one VMM, of one report.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageColumn<'r> {
    /// The column's index, which determines its letter and its colour.
    pub(super) place: usize,
    pub(super) report: &'r Report,
    /// The name of the report's file.
    run: &'r str,
    /// The index of the column's report among the reports.
    pub(super) of_run: usize,
    /// The backend whose rows the column has. The rows of the host itself are in every column.
    pub(super) backend: &'r str,
    /// Whether there are several reports.
    has_other_runs: bool,
    /// Whether the column's report has several backends.
    has_other_backends: bool,
    /// Whether this is the only column.
    is_alone: bool,
}

/// The columns of all reports, those of the first report first. Backends whose costs say nothing about hardware come last.
pub(super) fn columns(runs: &[Run]) -> Vec<PageColumn<'_>> {
    let mut columns: Vec<PageColumn<'_>> = Vec::new();
    for (of_run, run) in runs.iter().enumerate() {
        let backends = backends(&run.report);
        for backend in &backends {
            columns.push(PageColumn {
                place: 0,
                report: &run.report,
                run: &run.name,
                of_run,
                backend,
                has_other_runs: runs.len() > 1,
                has_other_backends: backends.len() > 1,
                is_alone: false,
            });
        }
    }
    columns.sort_by_key(PageColumn::emulates_kernel_mode);
    let is_alone = columns.len() == 1;
    for (place, column) in columns.iter_mut().enumerate() {
        (column.place, column.is_alone) = (place, is_alone);
    }
    columns
}

/// The backends that have their own rows, in the order of the rows.
fn backends(report: &Report) -> Vec<&str> {
    let mut backends: Vec<&str> = Vec::new();
    for row in &report.results {
        let is_own = PageSection::of(report, row) != PageSection::Floors;
        if is_own && !backends.contains(&row.backend.as_str()) {
            backends.push(&row.backend);
        }
    }
    // A VMM without rows is explained elsewhere, and has no column.
    if backends.is_empty() {
        backends.push(report.backends.first().map_or("", |first| &first.name));
    }
    backends
}

impl<'r> PageColumn<'r> {
    /// The column's letter, next to its bar.
    pub(super) fn letter(&self) -> String {
        let letters = ('A'..='Z').collect::<Vec<_>>();
        let letter = letters[self.place % letters.len()].to_string();
        letter.repeat(self.place / letters.len() + 1)
    }

    /// The column's letter, if there are several columns.
    pub(super) fn mark(&self) -> Option<String> {
        (!self.is_alone).then(|| self.letter())
    }

    /// What the column is, in a few words.
    pub(super) fn title(&self) -> String {
        let backend = format!("{}{}", self.backend, self.dagger());
        match (self.has_other_runs, self.has_other_backends) {
            (false, _) => backend,
            (true, false) => self.run.to_owned(),
            (true, true) => format!("{}: {backend}", self.run),
        }
    }

    /// The CSS class that gives the column its colour.
    pub(super) fn class(&self) -> String {
        const COLORS: usize = 6;
        format!("c{}", self.place % COLORS)
    }

    /// The mark of a backend or VMM whose times need a footnote.
    fn dagger(&self) -> &'static str {
        if self.emulates_kernel_mode() {
            "†"
        } else if self.is_emulated() {
            "‡"
        } else {
            ""
        }
    }

    /// Whether the backend runs the guest's ring 0 in an instruction emulator.
    pub(super) fn emulates_kernel_mode(&self) -> bool {
        self.report.emulates_kernel_mode(self.backend)
    }

    /// Whether the column's numbers are times of an emulated CPU, which say nothing about hardware.
    pub(super) fn is_emulated(&self) -> bool {
        let vmms = &mut self.report.vmms().iter();
        self.report.timing == Timing::Emulated
            || vmms.any(|vmm| vmm.name == self.backend && vmm.emulated)
    }

    /// The rows of a section that belong to the column.
    pub(super) fn rows(&self, section: PageSection) -> impl Iterator<Item = &'r Row> {
        let (report, backend) = (self.report, self.backend);
        report.results.iter().filter(move |row| {
            PageSection::of(report, row) == section
                && (row.backend == backend || section == PageSection::Floors)
        })
    }

    /// The median of a row as text; `None` if the row has none.
    pub(super) fn median(&self, row: &Row) -> Option<String> {
        numbers::median(self.report, row, None)
    }

    /// Whether both columns have the same kind of numbers, so that they can be drawn on one scale.
    pub(super) fn is_drawn_beside(&self, first: &Self) -> bool {
        self.report.timing == first.report.timing && !self.is_emulated()
    }
}

/// The rows with one name: one for each column that has it.
#[derive(Debug)]
pub(super) struct PageLine<'r> {
    pub(super) name: &'r str,
    pub(super) rows: Vec<Option<&'r Row>>,
}

/// Names in display order, each with the index at which it was first seen. A linked list, as there may be many.
#[derive(Default)]
struct NameOrder<'r> {
    places: HashMap<&'r str, usize>,
    first: Option<usize>,
    /// For each index, the index that follows it in display order.
    next: Vec<Option<usize>>,
}

impl<'r> NameOrder<'r> {
    /// Returns the index of a name. A new name is inserted after the index `before`, or at the front.
    fn place(&mut self, name: &'r str, before: Option<usize>) -> usize {
        let new = self.next.len();
        let place = *self.places.entry(name).or_insert(new);
        if place == new {
            let link = match before {
                Some(before) => &mut self.next[before],
                None => &mut self.first,
            };
            let after = link.replace(new);
            self.next.push(after);
        }
        place
    }

    /// The indices in the order of the names.
    fn order(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first, |place| self.next[*place])
    }
}

/// The rows of a section that have numbers, by name. Names are in the order that they have in the columns.
pub(super) fn lines<'r>(section: PageSection, columns: &[PageColumn<'r>]) -> Vec<PageLine<'r>> {
    let mut names = NameOrder::default();
    let mut lines: Vec<PageLine<'r>> = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let mut before = None;
        for row in column.rows(section).filter(|row| row.is_ok()) {
            let at = names.place(&row.command, before);
            if at == lines.len() {
                let rows = vec![None; columns.len()];
                let name = row.command.as_str();
                lines.push(PageLine { name, rows });
            }
            lines[at].rows[place] = Some(row);
            before = Some(at);
        }
    }
    let mut lines: Vec<Option<PageLine<'r>>> = lines.into_iter().map(Some).collect();
    names.order().filter_map(|at| lines[at].take()).collect()
}

impl<'r> PageLine<'r> {
    /// What one operation is, from the first column that has a description.
    pub(super) fn description(&self) -> Option<&'r str> {
        let mut rows = self.rows.iter().flatten();
        rows.find_map(|row| row.description.as_deref())
    }

    /// Each column that has the row, with the row.
    pub(super) fn cells<'c>(
        &self,
        columns: &'c [PageColumn<'r>],
    ) -> impl Iterator<Item = (&'c PageColumn<'r>, &'r Row)> {
        let rows = self.rows.iter();
        columns
            .iter()
            .zip(rows)
            .filter_map(|(column, row)| Some((column, (*row)?)))
    }
}
