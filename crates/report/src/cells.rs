//! Formats every number of the bench's tables once: the terminal and Markdown writers lay out the same
//! cells and differ in nothing else.

use std::collections::{HashMap, HashSet};

use super::columns::Paint;
use super::time_unit::{self, TimeUnit};
use super::{Group, Measured, PercentilesOf, Ratio, Report, Row, Status, Timing, units};

/// A change that may be none: its interval has 1 in it.
pub(super) const UNCLEAR: &str = "unclear";

/// The rows of one group, those of one name side by side.
#[derive(Debug)]
pub(super) struct Table<'r> {
    pub(super) group: Group,
    /// The backends whose rows stand side by side; a single one for floors, which have names of their own.
    pub(super) backends: Vec<&'r str>,
    pub(super) lines: Vec<Line<'r>>,
}

/// The rows of one name.
#[derive(Debug)]
pub(super) struct Line<'r> {
    pub(super) name: &'r str,
    /// For each backend of the table, the numbers of its row; `None` if it has no row or no numbers.
    pub(super) numbers: Vec<Option<Numbers>>,
}

/// Rows that were not measured for one reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excuse<'r> {
    pub(super) names: Vec<&'r str>,
    pub(super) backend: &'r str,
    pub(super) status: Status,
    pub(super) reason: &'r str,
}

/// The cells of a measured row; `None` for a number that the row does not have.
#[derive(Debug)]
pub(super) struct Numbers {
    /// The median itself, for a bar.
    pub(super) median_ns: f64,
    pub(super) median: String,
    pub(super) spread: Option<String>,
    /// The 99th percentile, with a star if it is over single operations.
    pub(super) p99: Option<String>,
    pub(super) rate: Option<String>,
    /// The mean, the fastest run, the slowest run and the CPU time.
    pub(super) more: [Option<String>; 4],
    /// Light exits and heavy exits, per operation.
    pub(super) exits: Option<[String; 2]>,
    pub(super) memory: Option<String>,
    pub(super) kernel_memory: Option<String>,
    pub(super) ratio: Option<RatioCells>,
    /// Whether another row is compared with this one, which [`tables`] finds out.
    pub(super) is_reference: bool,
}

/// A ratio and the ends of its interval, if it has one.
#[derive(Debug)]
pub(super) struct RatioCells {
    pub(super) value: String,
    /// The same in words, `13x cheaper`; `unclear` if the interval has 1 in it.
    pub(super) change: String,
    pub(super) interval: Option<[String; 2]>,
    /// Green or red if the whole interval is on one side of 1.
    pub(super) paint: Paint,
}

impl Table<'_> {
    /// Whether any row of the table has a ratio.
    pub(super) fn has_ratio(&self) -> bool {
        self.has(|numbers| numbers.ratio.is_some())
    }

    /// Whether any row of the table has this number.
    pub(super) fn has(&self, number: fn(&Numbers) -> bool) -> bool {
        let all = self.lines.iter().flat_map(|line| &line.numbers);
        all.flatten().any(number)
    }

    /// Leaves out the columns of the other backends, and the lines that have nothing left.
    pub(super) fn retain_backends(&mut self, is_kept: impl Fn(&str) -> bool) {
        let kept: Vec<bool> = self.backends.iter().map(|one| is_kept(one)).collect();
        for line in &mut self.lines {
            let mut kept = kept.iter().copied();
            line.numbers.retain(|_| kept.next().unwrap_or(true));
        }
        self.lines
            .retain(|line| line.numbers.iter().any(Option::is_some));
        self.backends.retain(|one| is_kept(one));
    }
}

/// The groups that have rows with numbers, in the order in which they are shown; their times are in `unit`.
pub(super) fn tables(report: &Report, unit: Option<TimeUnit>) -> Vec<Table<'_>> {
    let groups = [Group::Scenario, Group::Floor, Group::Debug];
    groups
        .into_iter()
        .map(|group| table(report, group, unit))
        .filter(|table| !table.lines.is_empty())
        .collect()
}

fn table(report: &Report, group: Group, unit: Option<TimeUnit>) -> Table<'_> {
    let rows = report.group(group);
    let backends = match group {
        Group::Floor => vec![""],
        Group::Scenario | Group::Debug => backends(&rows),
    };
    // The one column of floors has no name, and is found by default.
    let column = |row: &Row| {
        let mut columns = backends.iter();
        let place = columns.position(|backend| *backend == row.backend);
        place.unwrap_or_default()
    };
    let all = report.results.iter();
    let references: HashSet<(&str, &str)> = all
        .filter_map(|row| Some((row.reference.as_deref()?, row.backend.as_str())))
        .collect();
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for row in &rows {
        let Some(measured) = row.measured() else {
            continue;
        };
        let mut numbers = numbers(report, measured, unit);
        numbers.is_reference = references.contains(&(row.command.as_str(), row.backend.as_str()));
        let at = *places.entry(&row.command).or_insert_with(|| {
            lines.push(Line {
                name: &row.command,
                numbers: backends.iter().map(|_| None).collect(),
            });
            lines.len() - 1
        });
        lines[at].numbers[column(row)] = Some(numbers);
    }
    Table {
        group,
        backends,
        lines,
    }
}

/// The backends of `rows`, in their order.
fn backends<'r>(rows: &[&'r Row]) -> Vec<&'r str> {
    let mut backends: Vec<&str> = Vec::new();
    for row in rows {
        if !backends.contains(&row.backend.as_str()) {
            backends.push(&row.backend);
        }
    }
    backends
}

/// The rows that were not measured, those with one reason together.
pub(super) fn excuses(report: &Report) -> Vec<Excuse<'_>> {
    let mut excuses: Vec<Excuse<'_>> = Vec::new();
    let mut places = HashMap::new();
    for row in report.results.iter().filter(|row| !row.is_ok()) {
        let (backend, status) = (row.backend.as_str(), row.status());
        let reason = row.reason().unwrap_or("no reason is known");
        let at = *places
            .entry((backend, status.name(), reason))
            .or_insert_with(|| {
                excuses.push(Excuse {
                    names: Vec::new(),
                    backend,
                    status,
                    reason,
                });
                excuses.len() - 1
            });
        excuses[at].names.push(&row.command);
    }
    excuses
}

impl Excuse<'_> {
    /// Red for a failure.
    pub(super) const fn paint(&self) -> Paint {
        match self.status {
            Status::Failed => Paint::Red,
            Status::Ok | Status::Skipped => Paint::Yellow,
        }
    }

    /// What happened to which rows, as `skipped on kvm: a, b`.
    pub(super) fn what(&self, report: &Report) -> String {
        let place = if report.backends.len() > 1
            && report.backends.iter().any(|b| b.name == self.backend)
        {
            format!(" on {}", self.backend)
        } else {
            String::new()
        };
        format!("{}{place}: {}", self.status.name(), self.names.join(", "))
    }
}

/// The cells of a row that measured this.
pub(super) fn numbers(report: &Report, measured: &Measured, unit: Option<TimeUnit>) -> Numbers {
    let time = |ns| time_unit::measured(ns, report, unit);
    let times = &measured.times;
    let cpu = measured.cpu();
    // Operations that are timed one by one wait for each other, so they have a latency and no rate. A
    // number of instructions is not a time and has no rate either.
    let (star, rate) = match (times.percentiles_of, report.timing) {
        (PercentilesOf::Runs, Timing::Instructions) => ("", None),
        (PercentilesOf::Runs, _) => ("", Some(units::rate(times.median))),
        (PercentilesOf::Operations, _) => ("*", None),
    };
    let bound = times.bound();
    let spread = times.spread.filter(|_| bound.is_none());
    let p99 = times.percentiles.and_then(|percentiles| percentiles.p99);
    let more = [Some(times.mean), Some(times.min), Some(times.max), cpu];
    Numbers {
        median_ns: times.median,
        median: bound.map_or_else(|| time(times.median), |bound| format!("<{}", time(bound))),
        spread: spread.map(units::percent),
        p99: p99.map(|p99| format!("{}{star}", time(p99))),
        rate: rate.filter(|_| bound.is_none()),
        more: more.map(|ns| ns.map(time)),
        exits: measured.exits.and_then(|exits| {
            let heavy = units::per_op(exits.userspace?);
            let light = exits.light().map_or_else(|| "-".to_owned(), units::per_op);
            Some([light, heavy])
        }),
        memory: measured.memory.map(units::bytes),
        kernel_memory: measured.kernel_memory.map(units::bytes),
        ratio: measured.ratio.as_ref().map(RatioCells::of),
        is_reference: false,
    }
}

impl RatioCells {
    pub(super) fn of(ratio: &Ratio) -> Self {
        if ratio.is_bound {
            return Self {
                value: format!("<{}", units::ratio(ratio.value)),
                change: format!(">{}", units::change(ratio.value)),
                interval: None,
                paint: Paint::Plain,
            };
        }
        Self {
            value: units::ratio(ratio.value),
            change: match ratio.is_unclear() {
                true => UNCLEAR.to_owned(),
                false => units::change(ratio.value),
            },
            interval: ratio.interval().map(|ends| ends.map(units::ratio)),
            paint: match ratio.interval() {
                Some([_, high]) if high < 1.0 => Paint::Green,
                Some([low, _]) if low > 1.0 => Paint::Red,
                _ => Paint::Plain,
            },
        }
    }
}
