//! Reports of one command at several depths of the lab, side by side: a column for each report, with the ratio of each
//! row to the same report's device model, and the exits of L1's guests if they were counted.

use super::{RowKey, quantity};
use crate::table::{Block, Cell, Column, Overflow, Table};
use crate::view::numbers;
use crate::{Group, Report, Row};

/// Shows a table for each group, with the rows that any report has measured. Each report comes with its column title;
/// `of` says what the reports have in common, such as the kernel, if there are several such tables.
pub fn at_depths(of: Option<&str>, reports: &[(String, Report)]) -> Vec<Block> {
    let Some((_, first)) = reports.first() else {
        return Vec::new();
    };
    let what = quantity(first.timing);
    let to = match first.paths().map_or("", |paths| &paths.ratios_to) {
        "device model" => "the device model",
        "first value" => "the first value of the scan",
        _ => "the row without the mechanism",
    };
    let of = of.map_or_else(String::new, |of| format!("{of}: "));
    let sentence = format!("{of}{what}, and their ratios to {to} at the same depth");
    let groups = [Group::Scenario, Group::Floor, Group::Debug].into_iter();
    let tables = groups.filter_map(|group| table(group, reports));
    std::iter::once(Block::text(sentence))
        .chain(tables)
        .collect()
}

fn table(group: Group, reports: &[(String, Report)]) -> Option<Block> {
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
    let name = |key: &RowKey| {
        let backends = keys.iter().filter(|other| other.command == key.command);
        match backends.count() {
            1 => key.command.clone(),
            _ => key.to_string(),
        }
    };
    let mut table = Table {
        overflow: Overflow::Continue,
        ..Table::new(group.name(), keys.iter().map(name))
    };
    for ((title, report), rows) in reports.iter().zip(&columns) {
        let cells = |cell: &dyn Fn(&Row) -> Option<String>| {
            let row = |key: &RowKey| rows.iter().find(|row| RowKey::of(row) == *key);
            let cells = keys.iter().map(|key| row(key).and_then(cell));
            cells.map(|text| text.map(Cell::from)).collect::<Vec<_>>()
        };
        let median = cells(&|row| numbers::median(report, row, None));
        table.add(Column::numbers(title), median);
        let ratio = cells(&|row| row.ratio().map(numbers::value));
        table.add(Column::numbers("ratio"), ratio);
        let exits = cells(&|row| l1_exits(row).map(|exits| format!("{exits:.1}")));
        table.add(Column::numbers("exits of L1"), exits);
    }
    (!keys.is_empty()).then_some(Block::Table(table))
}

/// All exits of L1's guests per operation.
fn l1_exits(row: &Row) -> Option<f64> {
    Some(row.measured()?.l1_exits.as_ref()?.values().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Screen, sample, terminal};

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
        let text = terminal(&at_depths(Some("debian:6.12"), &reports), Screen::default());
        assert!(
            text.starts_with(
                "debian:6.12: times, and their ratios to the device model at the same depth\n"
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

    #[test]
    fn the_sentence_names_the_numbers_and_the_rows_that_they_are_compared_with() {
        for (report, ratios_to, sentence) in [
            (
                sample::counted(),
                "device model",
                "instructions, and their ratios to the device model at the same depth",
            ),
            (
                sample::report(),
                "first value",
                "times, and their ratios to the first value of the scan at the same depth",
            ),
            (
                sample::report(),
                "reference",
                "times, and their ratios to the row without the mechanism at the same depth",
            ),
        ] {
            let mut report = report;
            ratios_to.clone_into(&mut sample::paths(&mut report).ratios_to);
            let blocks = at_depths(None, &[("L1".to_owned(), report)]);
            assert_eq!(blocks[0], Block::text(sentence));
        }
        assert_eq!(at_depths(None, &[]), []);
    }

    #[test]
    fn rows_of_one_name_are_told_apart_by_their_backends() {
        let reports = [("L1".to_owned(), sample::two_backends())];
        let text = terminal(&at_depths(None, &reports), Screen::default());
        for begin in ["portio-no-eventfd (kvm)", "portio-no-eventfd (usermode)"] {
            let rows = text.lines().filter(|line| line.starts_with(begin));
            assert_eq!(rows.count(), 1, "{text}");
        }
    }

    #[test]
    fn depths_that_do_not_fit_into_a_line_continue_below() {
        let titles: Vec<String> = (1..=6).map(|depth| format!("depth-{depth}")).collect();
        let reports = titles.iter().map(|title| (title.clone(), sample::report()));
        let screen = Screen {
            width: Some(70),
            ..Screen::default()
        };
        let text = terminal(&at_depths(None, &reports.collect::<Vec<_>>()), screen);
        for line in text.lines() {
            assert!(line.chars().count() <= 70, "{line}");
        }
        for title in &titles {
            assert!(text.contains(title), "{title}: {text}");
        }
    }
}
