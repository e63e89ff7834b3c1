//! Several reports side by side on a terminal: a column for each, with the ratio to the first one.

use super::cells::{Names, RowCells};
use super::{CompareError, CompareOptions, Comparison, RowKey, Verdict, compare, quantity};
use crate::columns::{Cell, CellRow, Paint, layout};
use crate::text::visible;
use crate::{Group, Look, Report, Row, units};

/// Writes a table for each group: the rows that at least two reports, or a later one alone, have measured. Each report comes
/// with its column's title.
///
/// # Errors
///
/// If a report cannot be compared with the first one.
pub fn side_by_side(reports: &[(String, Report)], look: Look) -> Result<String, CompareError> {
    let Some(((first, base), others)) = reports.split_first() else {
        return Ok(String::new());
    };
    let mut columns = Vec::new();
    for (title, report) in others {
        let options = CompareOptions::default();
        let comparison = compare(
            std::slice::from_ref(base),
            std::slice::from_ref(report),
            &options,
        )?;
        columns.push((title, tables(&comparison, report)));
    }
    let what = quantity(base.timing);
    let mut text = format!(
        "\n{what}, and their ratios to those of {}\n",
        visible(first)
    );
    for group in [Group::Scenario, Group::Floor, Group::Debug] {
        let mut names: Vec<(String, String)> = Vec::new();
        for (_, tables) in &columns {
            let own = tables.iter().filter(|(other, _)| *other == group);
            for row in own.flat_map(|(_, rows)| rows) {
                if !names.iter().any(|(name, _)| *name == row.name) {
                    names.push((row.name.clone(), row.old.clone()));
                }
            }
        }
        if names.is_empty() {
            continue;
        }
        let title = |text: &str| Cell::new(visible(text), Paint::Bold);
        let mut table: Vec<CellRow> = vec![vec![title(group.name()), title(first)]];
        for (column, _) in &columns {
            table[0].extend([title(column), title("ratio")]);
        }
        for (name, old) in names {
            let mut line = vec![Cell::from(name.as_str()), Cell::from(old)];
            for (_, tables) in &columns {
                let mut rows = tables
                    .iter()
                    .filter(|(other, _)| *other == group)
                    .flat_map(|(_, rows)| rows);
                let row = rows.find(|row| row.name == name);
                let cell = |text: Option<&String>| Cell::from(text.map_or("-", String::as_str));
                line.push(cell(row.map(|row| &row.new)));
                line.push(cell(row.map(|row| &row.ratio)));
            }
            table.push(line);
        }
        text.push('\n');
        text.push_str(&layout(&table, look.color));
    }
    Ok(text)
}

/// The tables of a comparison with the first report, and the rows that only `report` has measured, without a ratio.
fn tables(comparison: &Comparison, report: &Report) -> Vec<(Group, Vec<RowCells>)> {
    let mut tables = comparison.tables();
    let names = Names::of(comparison);
    for key in &comparison.only_new {
        let rows = report.results.iter();
        let mut times = rows
            .filter(|row| RowKey::of(row) == *key)
            .filter_map(Row::times);
        let Some(times) = times.next() else { continue };
        let row = RowCells {
            name: names.name(key),
            old: "-".to_owned(),
            new: units::measured(times.median, comparison.timing),
            ratio: "-".to_owned(),
            interval: None,
            verdict: Verdict::Inconclusive,
        };
        match tables.iter_mut().find(|(group, _)| *group == key.group) {
            Some((_, rows)) => rows.push(row),
            None => tables.push((key.group, vec![row])),
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::compare::samples::{self, Noise};

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
        let text = side_by_side(&reports, Look::default()).unwrap();
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

        let reports = [
            ("stock".to_owned(), report(1, 1.0)),
            ("module".to_owned(), report(2, 1.0)),
        ];
        let text = side_by_side(&reports, Look::default()).unwrap();
        let row = text.lines().find(|line| line.starts_with("row-1")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[1], cells[cells.len() - 1]), ("-", "-"), "{text}");
        assert_ne!(cells[2], "-", "{text}");
    }
}
