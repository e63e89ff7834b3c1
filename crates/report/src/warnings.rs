//! The reasons to doubt the numbers of a report, each with what the user can do about it.

use std::collections::HashSet;
use std::fmt;

use super::{Group, Report, Row, Times, Timing, units};

/// A spread above this share of the median means that the host was busy.
pub(super) const WIDE: f64 = 0.10;

/// Outliers that move the median by less than this share are not reported.
const MOVES: f64 = 0.01;

/// A load average per CPU above this, before measuring began, means that the host was busy.
pub(super) const BUSY: f64 = 0.5;

/// A run shorter than this share of its planned time is too short.
const TOO_SHORT: f64 = 0.5;

/// A rate below this share of the requested rate was not reached.
const REACHED: f64 = 0.95;

/// One reason to doubt the numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// Some runs of these entries are far off, and there are enough of them to move the median.
    Outliers {
        /// The names of these entries.
        names: Vec<String>,
    },
    /// The runs of some entries differ so much that their medians would not be reproducible.
    Wide {
        /// The names of these entries.
        names: Vec<String>,
    },
    /// Runs were much shorter than planned, so that their numbers are from few operations.
    Short {
        /// The names of these entries.
        names: Vec<String>,
        /// The planned time of a run, in seconds.
        min_time: f64,
    },
    /// The host was busy before measuring began.
    Loaded {
        /// The load average of the last minute.
        load: f64,
        /// How many CPUs are online.
        cpus: usize,
    },
    /// Some entries have no ratio, because the entry that they are compared with was left out.
    NoReference {
        /// The names of these entries.
        names: Vec<String>,
    },
    /// Some entries have no ratio, because the entry that they are compared with could not be measured.
    LostReference {
        /// The names of these entries.
        names: Vec<String>,
    },
    /// Events came at a lower rate than the user requested.
    Slow {
        /// The names of the entries.
        names: Vec<String>,
        /// The requested rate, per second.
        asked: f64,
        /// The lowest rate of these entries, per second.
        reached: f64,
    },
    /// The CPU does not promise that the time stamp counter keeps its frequency.
    TscVaries,
    /// The CPU is emulated, so times say nothing about hardware.
    Emulated,
    /// The policy is to spin, but both sides share one CPU.
    SpinOnOneCpu,
}

impl Warning {
    /// Whether this number of CPUs is too busy for measurements at this load average.
    #[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
    pub fn is_busy(load: f64, cpus: usize) -> bool {
        load > BUSY * cpus as f64
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outliers { names } => write!(
                f,
                "outliers among the runs move the median of {}; close other programs, or ask for more \
                 runs with --runs",
                list(names)
            ),
            Self::Wide { names } => write!(
                f,
                "a spread of more than {} in {}: a quiet host, other CPUs (--cpu) or longer runs \
                 (--min-time) may help; ratios are affected less than times",
                units::percent(WIDE),
                list(names)
            ),
            Self::Short { names, min_time } => write!(
                f,
                "runs shorter than half of {} in {}: the host was too busy to calibrate the number of \
                 operations, or they are a small part of a run (eoi-*); set --ops, or try again",
                units::time(min_time * 1e9),
                // Each name is listed, as each row's numbers are from few operations.
                names.join(", ")
            ),
            Self::Loaded { load, cpus } => write!(
                f,
                "the load was {load:.1} on {cpus} CPUs before measuring began; rows that wake \
                 another CPU are affected most"
            ),
            Self::NoReference { names } => write!(
                f,
                "no ratio for {}: --only left out the row to compare with; name it too",
                list(names)
            ),
            Self::LostReference { names } => write!(
                f,
                "no ratio for {}: the row to compare with could not be measured; its reason is listed",
                list(names)
            ),
            Self::Slow {
                names,
                asked,
                reached,
            } => write!(
                f,
                "only {reached:.0} of {asked:.0} per second were reached in {}; counts per operation \
                 hold, counts per second are at the lower rate",
                list(names)
            ),
            Self::TscVaries => f.write_str(
                "the CPU does not promise a constant time stamp counter; times measured inside \
                 the guest may be off",
            ),
            Self::Emulated => {
                f.write_str("the CPU is emulated; counts are exact, times mean nothing")
            }
            Self::SpinOnOneCpu => f.write_str(
                "--spin spin with both sides on one CPU only delays the other side; give two CPUs \
                 with --cpu, or use --spin sleep",
            ),
        }
    }
}

/// The first few names, and the number of the others.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text = format!("{text} and {} more", names.len() - SHOWN);
    }
    text
}

/// All reasons to doubt the numbers of `report`.
#[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
pub fn warnings(report: &Report) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let names = |pick: &dyn Fn(&Times, &Row) -> bool| -> Vec<String> {
        report
            .results
            .iter()
            .filter(|row| row.times().is_some_and(|times| pick(times, row)))
            .map(|row| report.label(row))
            .collect()
    };
    if report.timing == Timing::Emulated {
        warnings.push(Warning::Emulated);
    }
    let has_guest = report.results.iter().any(|o| o.group == Group::Scenario);
    if has_guest && report.timing == Timing::Native && !report.tsc.invariant {
        warnings.push(Warning::TscVaries);
    }
    let (load, cpus) = (report.host.load.unwrap_or_default(), report.host.cpus);
    if Warning::is_busy(load, cpus) {
        warnings.push(Warning::Loaded { load, cpus });
    }
    let one_cpu = report
        .cpus
        .iter()
        .all(|cpu| report.cpus.first() == Some(cpu));
    if has_guest && report.paths().is_some_and(|paths| paths.spin == "spin") && one_cpu {
        warnings.push(Warning::SpinOnOneCpu);
    }
    let slow_rates = |row: &Row| rates(row).filter(|(asked, reached)| *reached < REACHED * asked);
    if let Some((asked, reached)) = report
        .results
        .iter()
        .filter(|row| row.times().is_some())
        .filter_map(slow_rates)
        .min_by(|a, b| a.1.total_cmp(&b.1))
    {
        let names = names(&|_, row| slow_rates(row).is_some());
        warnings.push(Warning::Slow {
            names,
            asked,
            reached,
        });
    }
    let min_time = report.plan.min_time;
    let short = names(&|times, _| {
        let is_short = |time| time < TOO_SHORT * min_time;
        report.plan.ops.is_none() && times.shortest_run.is_some_and(is_short)
    });
    if !short.is_empty() {
        let names = short;
        warnings.push(Warning::Short { names, min_time });
    }
    let rows = report.results.iter();
    let rows: HashSet<(&str, &str)> = rows
        .map(|row| (row.command.as_str(), row.backend.as_str()))
        .collect();
    let unmatched = |is_there: bool| {
        names(&|_, row| {
            row.reference.as_deref().is_some_and(|reference| {
                row.ratio().is_none() && rows.contains(&(reference, &row.backend)) == is_there
            })
        })
    };
    for (names, warning) in [
        (
            unmatched(false),
            (|names| Warning::NoReference { names }) as fn(Vec<String>) -> Warning,
        ),
        (unmatched(true), |names| Warning::LostReference { names }),
    ] {
        if !names.is_empty() {
            warnings.push(warning(names));
        }
    }
    // The spread of a time that cannot be told from 0 means nothing.
    let wide = names(&|times, _| {
        times.bound().is_none() && times.spread.is_some_and(|spread| spread > WIDE)
    });
    if !wide.is_empty() {
        warnings.push(Warning::Wide { names: wide });
    }
    let moved = names(&|times, _| times.outliers > 0 && times.outliers_shift > MOVES);
    if !moved.is_empty() {
        warnings.push(Warning::Outliers { names: moved });
    }
    warnings
}

/// The requested rate of a row and the rate that it reached, if a rate was requested.
fn rates(row: &Row) -> Option<(f64, f64)> {
    let asked = row.parameters.get("rate")?.parse().ok()?;
    Some((asked, 1e9 / row.median()?))
}

#[cfg(test)]
#[path = "warnings_test.rs"]
mod tests;
