//! `--bisect`: finds the first kernel between two at which a row of `vmbell bench` changed.

use anyhow::{Context, bail};

use super::parts::RunKernel;
use vmbell_lab::debian::is_older;
use vmbell_report::{Block, Cell, Column, Group, Outcome, Report, Table};

/// The smallest change of the row between the two kernels that is searched for, as a share. Kernels differ by a few per
/// cent for reasons such as the placement of their code.
const LEAST: f64 = 0.03;

/// A kernel and its measured figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The kernel's release (`uname -r`).
    release: String,
    row: String,
    instructions: f64,
}

impl Point {
    /// The one row of the report that was measured.
    pub(super) fn of(report: &Report) -> anyhow::Result<Self> {
        let measured = report.results.iter().filter_map(|row| match &row.outcome {
            Outcome::Measured(measured) if row.group == Group::Scenario => {
                Some((&row.command, measured.times.median))
            }
            _ => None,
        });
        let rows: Vec<_> = measured.collect();
        let [(row, instructions)] = rows.as_slice() else {
            bail!(
                "--bisect is for one row, and {} were measured: `vmbell bench ROW --only`",
                rows.len()
            );
        };
        let kernel = &report.host.kernel;
        Ok(Self {
            release: kernel.trim_start_matches("Linux ").to_owned(),
            row: (*row).clone(),
            instructions: *instructions,
        })
    }
}

/// A search: the kernels that were measured, in order.
#[derive(Debug)]
pub(super) struct Bisection {
    points: Vec<Point>,
    /// The index of the first kernel with the change.
    first: usize,
}

impl Bisection {
    /// Starts a search between two kernels; fails if there is nothing to find.
    pub(super) fn new([old, new]: [Point; 2]) -> anyhow::Result<Self> {
        if !is_older(&old.release, &new.release) {
            bail!(
                "--bisect wants the older kernel first, and Linux {} is not older than {}",
                old.release,
                new.release
            );
        }
        let change = new.instructions / old.instructions - 1.0;
        if change.abs() < LEAST {
            bail!(
                "{} did not change: {} instructions on Linux {} and {} on {}, {:+.1} %, and at least {:.0} % are looked for",
                old.row,
                old.instructions.round(),
                old.release,
                new.instructions.round(),
                new.release,
                change * 100.0,
                LEAST * 100.0
            );
        }
        Ok(Self {
            points: vec![old, new],
            first: 1,
        })
    }

    /// The releases of the two kernels.
    pub(super) fn releases(&self) -> [&str; 2] {
        [0, self.points.len() - 1].map(|index| self.points[index].release.as_str())
    }

    /// Measures kernels between the two, halving the rest each time.
    pub(super) fn run(
        &mut self,
        between: &[RunKernel],
        mut measure: impl FnMut(&RunKernel) -> anyhow::Result<Point>,
    ) -> anyhow::Result<()> {
        let ends = [0, 1].map(|index| self.points[index].instructions);
        let half = f64::midpoint(ends[0], ends[1]);
        let mut left = between;
        while !left.is_empty() {
            let middle = left.len() / 2;
            let point = measure(&left[middle]).context("the search ends early")?;
            let is_changed = (point.instructions > half) == (ends[1] > half);
            self.points.insert(self.first, point);
            if is_changed {
                left = &left[..middle];
            } else {
                left = &left[middle + 1..];
                self.first += 1;
            }
        }
        Ok(())
    }
}

impl Bisection {
    /// Shows the kernels that were measured, and the first one with the change.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let base = self.points[0].instructions;
        let points = &self.points;
        let mut table = Table {
            title: Some(points[0].row.clone()),
            ..Table::new("kernel", points.iter().map(|point| &point.release))
        };
        let instructions = points
            .iter()
            .map(|point| format!("{:.0}", point.instructions));
        table.add(
            Column::numbers("instructions"),
            instructions.map(|text| Some(Cell::from(text))),
        );
        let ratios = points
            .iter()
            .map(|point| format!("{:.3}", point.instructions / base));
        table.add(
            Column::numbers("ratio"),
            ratios.map(|text| Some(Cell::from(text))),
        );
        let [before, first] = [self.first - 1, self.first].map(|index| &points[index]);
        let answer = format!(
            "Linux {} is the first of Debian's kernels with the change: {:.0} instructions, and {:.0} on {}.",
            first.release, first.instructions, before.instructions, before.release
        );
        vec![Block::Table(table), Block::text(answer)]
    }
}

#[cfg(test)]
mod tests {
    use vmbell_report::{Screen, terminal};

    use super::*;

    fn point(release: &str, instructions: f64) -> Point {
        Point {
            release: release.to_owned(),
            row: "a-row".to_owned(),
            instructions,
        }
    }

    /// Searches among kernels 6.1.1 to 6.1.8 with these figures, and returns the number of kernels measured between the
    /// ends.
    fn searched(figures: [f64; 8]) -> (Bisection, usize) {
        let release = |index: usize| format!("6.1.{}", index + 1);
        let ends = [0, 7].map(|index| point(&release(index), figures[index]));
        let mut bisection = Bisection::new(ends).unwrap();
        assert_eq!(bisection.releases(), ["6.1.1", "6.1.8"]);
        let version = |index| format!("debian:{}", release(index)).parse().unwrap();
        let between: Vec<RunKernel> = (1..7)
            .map(|index| RunKernel::debian(version(index)))
            .collect();
        let mut steps = 0;
        let measure = |choice: &RunKernel| {
            steps += 1;
            let index = (1..7).find(|index| choice.to_string() == version(*index).to_string());
            let index = index.unwrap();
            Ok(point(&release(index), figures[index]))
        };
        bisection.run(&between, measure).unwrap();
        (bisection, steps)
    }

    fn shown(bisection: &Bisection) -> String {
        terminal(&bisection.blocks(), Screen::default())
    }

    #[test]
    fn the_first_kernel_with_the_change_is_found_in_few_steps() {
        for change in 1..8 {
            for [old, new] in [[100.0, 110.0], [110.0, 100.0]] {
                let mut figures = [old; 8];
                figures[change..].fill(new);
                let (bisection, steps) = searched(figures);
                let text = shown(&bisection);
                let said = format!(
                    "\nLinux 6.1.{} is the first of Debian's kernels",
                    change + 1
                );
                assert!(text.contains(&said), "{text}");
                assert!(text.contains(&format!("on 6.1.{change}.\n")), "{text}");
                assert!(steps <= 3, "{steps}");
            }
        }
    }

    #[test]
    fn the_table_has_what_was_measured_in_order() {
        let (bisection, _) = searched([100.0, 101.0, 99.0, 100.0, 121.0, 119.0, 120.0, 120.0]);
        assert_eq!(
            shown(&bisection),
            "a-row\nkernel  instructions  ratio\n\
             6.1.1            100  1.000\n\
             6.1.3             99  0.990\n\
             6.1.4            100  1.000\n\
             6.1.5            121  1.210\n\
             6.1.8            120  1.200\n\n\
             Linux 6.1.5 is the first of Debian's kernels with the change: 121 instructions, and 100 on 6.1.4.\n"
        );
    }

    #[test]
    fn kernels_without_a_change_or_in_the_wrong_order_are_refused() {
        let said = |ends| Bisection::new(ends).unwrap_err().to_string();
        assert_eq!(
            said([point("6.1.1", 100.0), point("6.12.1", 98.0)]),
            "a-row did not change: 100 instructions on Linux 6.1.1 and 98 on 6.12.1, -2.0 %, and at least 3 % are looked for"
        );
        for other in ["6.12.1", "6.1.1"] {
            let error = said([point("6.12.1", 1.0), point(other, 2.0)]);
            assert!(
                error.starts_with("--bisect wants the older kernel first"),
                "{error}"
            );
        }
    }
}
