//! What is shown of a comparison: the differences, a table for each group, and what readers must know.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use super::{ComparedRow, Comparison, FailedRow, NoVerdict, Pairing, RowKey, Side, Verdict};
use crate::table::{Block, Cell, Column, Paint, Table};
use crate::{Group, Timing, units};

impl Comparison {
    /// Shows the comparison: the rows that changed, or with `all_rows` every row.
    pub fn blocks(&self, all_rows: bool) -> Vec<Block> {
        let mut blocks = vec![
            Block::Text(Cell::new(self.summary(), Paint::Bold)),
            Block::text(self.headline()),
        ];
        blocks.extend(self.differences.iter().map(|difference| {
            let paint = match difference.refused {
                true => Paint::Yellow,
                false => Paint::Dim,
            };
            Block::Text(Cell::new(difference.to_string(), paint))
        }));
        for group in [Group::Scenario, Group::Floor, Group::Debug] {
            let is_shown = |row: &&ComparedRow| {
                row.key.group == group && (all_rows || row.verdict.is_a_change())
            };
            let rows: Vec<&ComparedRow> = self.rows.iter().filter(is_shown).collect();
            if !rows.is_empty() {
                blocks.push(Block::Table(self.table(group, &rows)));
            }
        }
        blocks.extend(self.remarks().into_iter().map(Block::text));
        if !all_rows && self.rows.iter().any(|row| !row.verdict.is_a_change()) {
            blocks.push(Block::text(
                "Only rows that changed are shown; -v shows all.",
            ));
        }
        blocks
    }

    fn table(&self, group: Group, rows: &[&ComparedRow]) -> Table {
        let names = RowNames::of(self);
        let mut table = Table::new(group.name(), rows.iter().map(|row| names.name(&row.key)));
        let rows = || rows.iter().copied();
        table.add(
            Column::numbers("old").rank(4),
            rows().map(|row| Some(Cell::from(self.median(&row.old)))),
        );
        table.add(
            Column::numbers("new").rank(3),
            rows().map(|row| Some(Cell::from(self.median(&row.new)))),
        );
        table.add(
            Column::numbers("new/old").rank(1),
            rows().map(|row| Some(Cell::new(self.ratio(row)?, Paint::Bold))),
        );
        table.add(
            Column::numbers("95 % CI").rank(2),
            rows().map(|row| {
                let [low, high] = row.interval?.map(ratio);
                Some(Cell::from(format!("[{low}, {high}]")))
            }),
        );
        table.add(
            Column::words("verdict"),
            rows().map(|row| {
                let verdict = row.verdict.in_words(self.timing);
                Some(Cell::new(verdict, row.verdict.paint()))
            }),
        );
        table
    }

    /// One side's number as text.
    pub(super) fn median(&self, side: &Side) -> String {
        let bound = if side.is_bound { "<" } else { "" };
        format!("{bound}{}", units::measured(side.median_ns, self.timing))
    }

    /// The ratio as text.
    pub(super) fn ratio(&self, row: &ComparedRow) -> Option<String> {
        let text = ratio(row.ratio?);
        Some(match (row.new.is_bound, row.old.is_bound) {
            (true, _) => format!("<{text}"),
            (false, true) => format!(">{text}"),
            (false, false) => text,
        })
    }

    /// What is compared and how, in one line.
    fn headline(&self) -> String {
        let reports = |count: usize| match count {
            1 => "1 report".to_owned(),
            count => format!("{count} reports"),
        };
        let how = match self.options.pairing {
            Pairing::Turns => format!("{} a side, in turns", reports(self.old_reports)),
            Pairing::Apart => format!(
                "{} before, {} now",
                reports(self.old_reports),
                reports(self.new_reports)
            ),
        };
        let (band, seed) = (units::percent(self.options.band), self.options.seed);
        match self.timing {
            Timing::Native | Timing::Emulated => format!(
                "{how}; ratios are new/old, below 1 = faster; same: within {band} of 1 (seed {seed})"
            ),
            // Counts are compared exactly, without a band or random draws.
            Timing::Instructions => {
                format!("{how}; ratios are new/old, below 1 = cheaper")
            }
        }
    }

    /// How many rows have each verdict, as `1 slower, 12 same`.
    fn summary(&self) -> String {
        let verdicts = [
            Verdict::Slower,
            Verdict::Faster,
            Verdict::Same,
            Verdict::Inconclusive,
        ];
        let count = |verdict| {
            self.rows
                .iter()
                .filter(|row| row.verdict == verdict)
                .count()
        };
        let counts = verdicts.map(|verdict| (count(verdict), verdict.in_words(self.timing)));
        let texts = counts.iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = texts
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        texts.join(", ")
    }

    /// What the table does not say: why rows are inconclusive, the rows that only one side has, and the notes.
    fn remarks(&self) -> Vec<String> {
        let names = RowNames::of(self);
        let mut without: Vec<(NoVerdict, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let Some(reason) = row.reason else { continue };
            let name = names.name(&row.key);
            match without.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, rows)) => rows.push(name),
                None => without.push((reason, vec![name])),
            }
        }
        let remark = |(reason, rows): &(NoVerdict, Vec<String>)| {
            let rows = match rows.len() == self.rows.len() {
                true => "any row".to_owned(),
                false => rows.join(", "),
            };
            format!("No verdict on {rows}: {reason}.")
        };
        let mut remarks: Vec<String> = without.iter().map(remark).collect();
        for (side, keys) in [("before", &self.only_old), ("now", &self.only_new)] {
            if !keys.is_empty() {
                let names: Vec<String> = keys.iter().map(|key| names.name(key)).collect();
                remarks.push(format!("Measured only {side}: {}.", names.join(", ")));
            }
        }
        for FailedRow { key, reason } in &self.failed_now {
            let reason = reason.as_deref().unwrap_or("its report has no reason");
            remarks.push(format!("Failed now: {}: {reason}.", names.name(key)));
        }
        remarks.extend(self.notes.iter().cloned());
        remarks
    }
}

type Parameters = BTreeMap<String, String>;

/// What distinguishes the rows of a comparison.
pub(super) struct RowNames<'c> {
    /// The backends of each group.
    backends: HashMap<Group, HashSet<&'c str>>,
    /// The parameters of each command and backend of a group.
    parameters: HashMap<(Group, &'c str, &'c str), HashSet<&'c Parameters>>,
}

impl<'c> RowNames<'c> {
    pub(super) fn of(comparison: &'c Comparison) -> Self {
        let mut names = Self {
            backends: HashMap::new(),
            parameters: HashMap::new(),
        };
        let keys = comparison.rows.iter().map(|row| &row.key);
        let keys = keys.chain(&comparison.only_old).chain(&comparison.only_new);
        for key in keys {
            let of_group = names.backends.entry(key.group).or_default();
            of_group.insert(key.backend.as_str());
            let row = (key.group, key.command.as_str(), key.backend.as_str());
            let of_row = names.parameters.entry(row).or_default();
            of_row.insert(&key.parameters);
        }
        names
    }

    /// The name of a row, with its backend and parameters if the command alone is ambiguous.
    pub(super) fn name(&self, key: &RowKey) -> String {
        let mut name = key.command.clone();
        let of_group = self.backends.get(&key.group);
        if has_other(of_group, &key.backend.as_str()) && key.group != Group::Floor {
            name = format!("{name} ({})", key.backend);
        }
        let row = (key.group, key.command.as_str(), key.backend.as_str());
        if has_other(self.parameters.get(&row), &&key.parameters) {
            let parameters = key.parameters.iter();
            let parameters: Vec<String> = parameters
                .map(|(parameter, value)| format!("{parameter}={value}"))
                .collect();
            name = format!("{name} [{}]", parameters.join(", "));
        }
        name
    }
}

/// Whether the set contains anything other than `value`.
fn has_other<T: Eq + Hash>(set: Option<&HashSet<T>>, value: &T) -> bool {
    set.is_some_and(|set| set.len() > usize::from(set.contains(value)))
}

impl Verdict {
    const fn is_a_change(self) -> bool {
        matches!(self, Self::Faster | Self::Slower)
    }

    const fn paint(self) -> Paint {
        match self {
            Self::Faster => Paint::Green,
            Self::Slower => Paint::Red,
            Self::Same => Paint::Plain,
            Self::Inconclusive => Paint::Dim,
        }
    }
}

/// A ratio with one digit more than in a report, because a comparison is about small changes.
fn ratio(value: f64) -> String {
    if (0.01..9.9995).contains(&value) {
        format!("{value:.3}")
    } else {
        units::ratio(value)
    }
}

#[cfg(test)]
#[path = "view_test.rs"]
mod tests;
