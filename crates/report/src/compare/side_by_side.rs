//! Several reports side by side: a column for each report, with the ratio to the first report.

use super::view::RowNames;
use super::{CompareError, CompareOptions, Comparison, RowKey, compare, quantity};
use crate::table::{Block, Cell, Column, Overflow, Table};
use crate::view::numbers;
use crate::{Group, Report};

/// A row of a report that is compared with the first report.
struct SideRow {
    group: Group,
    name: String,
    old: String,
    new: String,
    /// `None` if the first report does not have the row.
    ratio: Option<String>,
}

/// Shows a table for each group. It has the rows that at least two reports have measured, and those that a single
/// report other than the first has measured. Each report comes with its column title.
///
/// # Errors
///
/// If a report cannot be compared with the first one.
pub fn side_by_side(reports: &[(String, Report)]) -> Result<Vec<Block>, CompareError> {
    let Some(((first, base), others)) = reports.split_first() else {
        return Ok(Vec::new());
    };
    let mut columns = Vec::new();
    for (title, report) in others {
        // The reports are compared because they differ in a kernel or a CPU.
        let options = CompareOptions {
            allow_different: true,
            ..CompareOptions::default()
        };
        let comparison = compare(
            std::slice::from_ref(base),
            std::slice::from_ref(report),
            &options,
        )?;
        columns.push((title, rows(&comparison, report)));
    }
    let what = quantity(base.timing);
    let sentence = format!("{what}, and their ratios to those of {first}");
    let mut blocks = vec![Block::text(sentence)];
    for group in [Group::Scenario, Group::Floor, Group::Debug] {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let of_group = columns.iter().flat_map(|(_, rows)| rows);
        for row in of_group.filter(|row| row.group == group) {
            if !names.iter().any(|(name, _)| *name == row.name) {
                names.push((&row.name, &row.old));
            }
        }
        if names.is_empty() {
            continue;
        }
        let mut table = Table {
            overflow: Overflow::Continue,
            ..Table::new(group.name(), names.iter().map(|(name, _)| *name))
        };
        let old = names.iter().map(|(_, old)| Some(Cell::from(*old)));
        table.add(Column::numbers(first), old);
        for (title, rows) in &columns {
            let cells = |cell: &dyn Fn(&SideRow) -> Option<Cell>| {
                let row = |name| {
                    rows.iter()
                        .find(|row| row.group == group && row.name == name)
                };
                let cells = names.iter().map(|(name, _)| row(*name).and_then(cell));
                cells.collect::<Vec<_>>()
            };
            let new = cells(&|row| Some(Cell::from(&row.new)));
            table.add(Column::numbers(*title), new);
            let ratio = cells(&|row| row.ratio.as_ref().map(Cell::from));
            table.add(Column::numbers("ratio"), ratio);
        }
        blocks.push(Block::Table(table));
    }
    Ok(blocks)
}

/// The rows of a comparison with the first report, and the rows that only `report` has measured.
fn rows(comparison: &Comparison, report: &Report) -> Vec<SideRow> {
    let names = RowNames::of(comparison);
    let compared = comparison.rows.iter().map(|row| SideRow {
        group: row.key.group,
        name: names.name(&row.key),
        old: comparison.median(&row.old),
        new: comparison.median(&row.new),
        ratio: comparison.ratio(row),
    });
    let alone = comparison.only_new.iter().filter_map(|key| {
        let mut rows = report.results.iter().filter(|row| RowKey::of(row) == *key);
        let new = rows.find_map(|row| numbers::median(report, row, None))?;
        Some(SideRow {
            group: key.group,
            name: names.name(key),
            old: "-".to_owned(),
            new,
            ratio: None,
        })
    });
    compared.chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::{self, Noise};
    use crate::{Screen, terminal};
    use vmbell_statistics::Random;

    #[test]
    fn each_report_has_a_column_and_a_row_that_one_lacks_has_a_dash() {
        let exact = Noise {
            of_reports: 0.0,
            of_rows: 0.0,
            of_runs: 0.0,
        };
        let report = |rows: usize, factor: f64| {
            samples::report(rows, 3, exact, |_| factor, &mut Random::new(1))
        };
        let reports = [
            ("6.1".to_owned(), report(2, 1.0)),
            ("6.12".to_owned(), report(2, 2.0)),
            ("7.3".to_owned(), report(1, 0.5)),
        ];
        let text = terminal(&side_by_side(&reports).unwrap(), Screen::default());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|line: &Vec<&str>| !line.is_empty())
            .collect();
        assert_eq!(
            lines[0].join(" "),
            "times, and their ratios to those of 6.1"
        );
        assert_eq!(
            lines[1][1..],
            ["6.1", "6.12", "ratio", "7.3", "ratio"],
            "{text}"
        );
        assert_eq!(lines[2].first(), Some(&"row-0"), "{text}");
        assert!(
            lines[2].contains(&"2.000") && lines[2].contains(&"0.500"),
            "{text}"
        );
        assert_eq!(lines[3][lines[3].len() - 2..], ["-", "-"], "{text}");

        let mut fast = report(2, 1.0);
        crate::sample::of(&mut fast.results[1]).times.resolution = Some(1e9);
        let reports = [
            ("stock".to_owned(), report(1, 1.0)),
            ("module".to_owned(), fast),
        ];
        let text = terminal(&side_by_side(&reports).unwrap(), Screen::default());
        let row = text.lines().find(|line| line.starts_with("row-1")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[1], cells[cells.len() - 1]), ("-", "-"), "{text}");
        // A median below the resolution is shown as a bound, even if nothing is compared.
        assert_eq!(cells[2], "<1.00", "{text}");
    }

    #[test]
    fn the_columns_may_be_of_different_cpus() {
        let exact = Noise {
            of_reports: 0.0,
            of_rows: 0.0,
            of_runs: 0.0,
        };
        let reports = ["amd", "intel"].map(|cpu| {
            let mut report = samples::report(1, 3, exact, |_| 1.0, &mut Random::new(1));
            cpu.clone_into(&mut report.host.cpu);
            (cpu.to_owned(), report)
        });
        assert_eq!(side_by_side(&reports).unwrap().len(), 2);
    }

    #[test]
    fn reports_that_do_not_fit_into_a_line_continue_below() {
        let exact = Noise {
            of_reports: 0.0,
            of_rows: 0.0,
            of_runs: 0.0,
        };
        let titles: Vec<String> = (1..=6).map(|report| format!("report-{report}")).collect();
        let report = || samples::report(2, 3, exact, |_| 1.0, &mut Random::new(1));
        let reports: Vec<_> = titles
            .iter()
            .map(|title| (title.clone(), report()))
            .collect();
        let screen = Screen {
            width: Some(70),
            ..Screen::default()
        };
        let text = terminal(&side_by_side(&reports).unwrap(), screen);
        for line in text.lines() {
            assert!(line.chars().count() <= 70, "{line}");
        }
        for title in &titles {
            assert!(text.contains(title), "{title}: {text}");
        }
    }
}
