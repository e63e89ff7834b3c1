//! The report of `vmbell bench rings`: a row for each variant, with its time and its events per operation, and the
//! ratios between variants.

use super::Look;
use super::excuses::excuses;
use super::header::ended_early;
use super::numbers::{Number, Numbers};
use crate::table::{Block, Cell, Column, Overflow, Table};
use crate::{Counted, Counts, EventUnit, Ratio, Report, Row, Scope, Work, units};
use vmbell_statistics::{Summary, error_of_mean};

/// The parameter that holds all switches of a row's variant.
const SWITCHES: &str = "switches";

pub(super) fn blocks(report: &Report, work: &Work, look: Look) -> Vec<Block> {
    let runs = format!(
        "{} of each variant, in random order (seed {}){}",
        units::plural(report.plan.finished, "run"),
        report.seed,
        ended_early(report)
    );
    let common = common(&report.results);
    let facts = [
        ("work", work.text.clone()),
        ("switches", common.join(" ")),
        ("runs", runs),
    ];
    let facts = facts.map(|(label, text)| (label.to_owned(), text));
    let mut blocks = vec![Block::Facts(facts.into())];
    let rows: Vec<&Row> = report.results.iter().filter(|row| row.is_ok()).collect();
    if !rows.is_empty() {
        blocks.push(Block::Table(costs(report, work, &rows, look)));
        blocks.extend([
            Block::Note(format!("numbers of one {}", work.operation)),
            Block::Note("±: the standard error of the mean over the runs".to_owned()),
        ]);
    }
    let missing = work.events.iter().filter(|event| event.scope.is_none());
    blocks.extend(missing.map(|Counted { event, reason, .. }| {
        let reason = reason.as_deref().unwrap_or("no reason is known");
        Block::Note(format!("{event} not counted: {reason}"))
    }));
    blocks.extend(ratios(work, &rows).map(Block::Table));
    blocks.extend(excuses(report).iter().map(|excuse| excuse.block(report)));
    blocks
}

/// The switches that all variants have.
fn common(rows: &[Row]) -> Vec<&str> {
    let Some((first, others)) = rows.split_first() else {
        return Vec::new();
    };
    let switches = |row| Row::switches(row).split(' ');
    switches(first)
        .filter(|switch| {
            others
                .iter()
                .all(|row| switches(row).any(|other| other == *switch))
        })
        .collect()
}

impl Row {
    /// The switches of this row's ring variant.
    fn switches(&self) -> &str {
        self.parameters.get(SWITCHES).unwrap_or(&self.command)
    }
}

/// What an operation of each variant costs.
fn costs(report: &Report, work: &Work, rows: &[&Row], look: Look) -> Table {
    let mut table = Table {
        overflow: Overflow::Continue,
        ..Table::new("variant", rows.iter().map(|row| row.command.as_str()))
    };
    let numbers = Numbers::of(report, look.unit);
    for number in [Number::Median, Number::Spread] {
        let cells = rows.iter().map(|row| numbers.cell(number, row));
        table.add(numbers.column(number), cells);
    }
    for event in &work.events {
        let name = match event.scope {
            Some(Scope::User) => format!("{}:u", event.event),
            _ => event.event.clone(),
        };
        let cells = rows.iter().map(|row| {
            let runs = row.measured()?.events.get(&event.event)?;
            Some(each(row, runs, event.unit))
        });
        table.add(Column::numbers(name), cells);
    }
    let measured = rows.iter().filter_map(|row| row.measured());
    for name in Counts::names(measured.map(|row| &row.counts)) {
        let cells = rows.iter().map(|row| {
            let runs = row.measured()?.counts.get(name)?;
            Some(each(row, runs, EventUnit::Count))
        });
        table.add(Column::numbers(name), cells);
    }
    table
}

/// The mean over runs of what one operation costs, with its standard error.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
fn each(row: &Row, runs: &[u64], unit: EventUnit) -> Cell {
    let ops = row.times().map_or(&[][..], |times| &times.ops).iter();
    let each = runs.iter().zip(ops);
    let each: Vec<f64> = each
        .map(|(count, ops)| *count as f64 / (*ops).max(1) as f64)
        .collect();
    let mean = Summary::of(&each).map_or(0.0, |summary| summary.mean);
    let mean = match unit {
        EventUnit::Count => units::per_op(mean),
        EventUnit::Ns => units::time(mean),
    };
    Cell::from(match error_of_mean(&each).filter(|error| *error > 0.0) {
        Some(error) => format!("{mean} ±{}", units::percent(error)),
        None => mean,
    })
}

/// The ratios of the variants that are compared with a different variant.
fn ratios(work: &Work, rows: &[&Row]) -> Option<Table> {
    let compared: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| row.ratio().is_some())
        .collect();
    let mut table = Table {
        title: Some("ratios of medians (new/old, below 1 = less), with 95 % confidence".to_owned()),
        overflow: Overflow::Continue,
        ..Table::new("new", compared.iter().map(|row| row.command.as_str()))
    };
    let old = compared.iter().map(|row| row.ratio());
    table.add(
        Column::words("old"),
        old.map(|ratio| Some(Cell::from(&ratio?.reference))),
    );
    let time = compared.iter().map(|row| row.ratio().map(ratio));
    table.add(Column::numbers("time"), time);
    for event in &work.events {
        let cells = compared.iter().map(|row| {
            let ratios = &row.measured()?.ratios;
            ratios.get(&event.event).map(ratio)
        });
        table.add(Column::numbers(&event.event), cells);
    }
    (!compared.is_empty()).then_some(table)
}

fn ratio(ratio: &Ratio) -> Cell {
    let value = ratio.value;
    Cell::from(match ratio.interval() {
        Some([low, high]) => format!("{value:.4} [{low:.4}, {high:.4}]"),
        None => format!("{value:.4} [-]"),
    })
}

#[cfg(test)]
#[path = "rings_test.rs"]
mod tests;
