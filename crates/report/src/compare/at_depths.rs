//! Reports of one command at several depths of the lab, side by side on a terminal: a column for each, with the ratio of each
//! row to its own report's device model, and the exits of L1's guests where they were counted.

use super::{RowKey, quantity};
use crate::columns::{Cell, CellRow, Paint, layout};
use crate::text::visible;
use crate::{Group, Look, Report, Row, units};

/// Writes a table for each group, with the rows that any report has measured. Each report comes with its column's title;
/// `of` says what the reports have in common, such as the kernel, if there are several such tables.
pub fn at_depths(of: Option<&str>, reports: &[(String, Report)], look: Look) -> String {
    let Some((_, first)) = reports.first() else {
        return String::new();
    };
    let what = quantity(first.timing);
    let to = match first.paths().map_or("", |paths| &paths.ratios_to) {
        "device model" => "the device model",
        "first value" => "the first value of the scan",
        _ => "the row without the mechanism",
    };
    let of = of.map_or_else(String::new, |of| format!("{}: ", visible(of)));
    let mut text = format!("\n{of}{what}, and their ratios to {to} at the same depth\n");
    for group in [Group::Scenario, Group::Floor, Group::Debug] {
        text.push_str(&table(group, reports, look));
    }
    text
}

fn table(group: Group, reports: &[(String, Report)], look: Look) -> String {
    let measured = |report: &'_ Report| {
        let rows = report.group(group).into_iter();
        rows.filter(|row| row.is_ok()).cloned().collect::<Vec<_>>()
    };
    let columns: Vec<Vec<Row>> = reports.iter().map(|(_, report)| measured(report)).collect();
    let mut keys: Vec<RowKey> = Vec::new();
    for key in columns.iter().flatten().map(RowKey::of) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return String::new();
    }
    let has_ratio = columns.iter().flatten().any(|row| row.ratio().is_some());
    let has_exits: Vec<bool> = columns
        .iter()
        .map(|rows| rows.iter().any(|row| l1_exits(row).is_some()))
        .collect();
    let title = |text: &str| Cell::new(visible(text), Paint::Bold);
    let mut table: Vec<CellRow> = vec![vec![title(group.name())]];
    for ((column, _), has_exits) in reports.iter().zip(&has_exits) {
        table[0].push(title(column));
        table[0].extend(has_ratio.then(|| title("ratio")));
        table[0].extend(has_exits.then(|| title("exits of L1")));
    }
    for key in &keys {
        let backends = keys.iter().filter(|other| other.command == key.command);
        let name = match backends.count() {
            1 => visible(&key.command),
            _ => key.to_string(),
        };
        let mut line = vec![Cell::from(name)];
        for (rows, has_exits) in columns.iter().zip(&has_exits) {
            let row = rows.iter().find(|row| RowKey::of(row) == *key);
            let median = row.and_then(|row| {
                let (times, timing) = (row.times()?, reports.first()?.1.timing);
                let bound = times.bound().map_or("", |_| "<");
                Some(format!("{bound}{}", units::measured(times.median, timing)))
            });
            let ratio = row.and_then(Row::ratio).map(|ratio| {
                let bound = if ratio.is_bound { "<" } else { "" };
                format!("{bound}{}", units::ratio(ratio.value))
            });
            let cell = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "-".to_owned()));
            line.push(cell(median));
            line.extend(has_ratio.then(|| cell(ratio)));
            let exits = row.and_then(l1_exits).map(|exits| format!("{exits:.1}"));
            line.extend(has_exits.then(|| cell(exits)));
        }
        table.push(line);
    }
    format!("\n{}", layout(&table, look.color))
}

/// All exits of L1's guests for one operation.
fn l1_exits(row: &Row) -> Option<f64> {
    Some(row.measured()?.l1_exits.as_ref()?.values().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_depth_has_a_column_with_ratios_to_its_own_device_model() {
        let report = |factor: f64| {
            let mut report = sample::report();
            for row in report.results.iter_mut().filter(|row| row.is_ok()) {
                let measured = sample::of(row);
                measured.times.median *= factor;
                if let Some(ratio) = &mut measured.ratio {
                    ratio.value = factor / 8.0;
                }
            }
            report
        };
        let with_ratio = report(1.0).results;
        let with_ratio = with_ratio.iter().find(|row| row.ratio().is_some());
        let name = &with_ratio.unwrap().command;
        let mut deeper = report(4.0);
        let exits = [("io".to_owned(), 1.04), ("vmload".to_owned(), 2.02)];
        let counted = deeper.results.iter_mut();
        for row in counted.filter(|row| row.command == *name) {
            sample::of(row).l1_exits = Some(exits.clone().into());
        }
        deeper.results.retain(|row| row.command != "floor-getppid");
        let reports = [("L1".to_owned(), report(1.0)), ("L2".to_owned(), deeper)];
        let text = at_depths(Some("debian:6.12"), &reports, Look::default());
        assert!(
            text.starts_with(
                "\ndebian:6.12: times, and their ratios to the device model at the same depth\n"
            ),
            "{text}"
        );
        let header = text
            .lines()
            .find(|line| line.starts_with("scenario"))
            .unwrap();
        let titles: Vec<&str> = header.split_whitespace().collect();
        assert_eq!(
            titles,
            [
                "scenario", "L1", "ratio", "L2", "ratio", "exits", "of", "L1"
            ]
        );
        let line = text.lines().find(|line| line.starts_with(name.as_str()));
        let line = line.unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert!(cells.contains(&"0.12") && cells.contains(&"0.50"), "{line}");
        assert_eq!(cells.last(), Some(&"3.1"), "{line}");
    }
}
