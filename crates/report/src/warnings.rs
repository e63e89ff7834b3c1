//! What one should doubt about a report, each with what to do about it.

use std::fmt;

use super::Group;
use super::{Report, Timing, units};

/// A spread above this share of the median says that the host was busy.
const WIDE: f64 = 0.10;

/// Outliers that move the median by less than this share do not matter.
const MOVES: f64 = 0.01;

/// A load of more runnable threads for each CPU than this, before measuring even began.
const BUSY: f64 = 0.5;

/// One doubt.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// Runs far off, so many that they move the median.
    Outliers {
        /// The entry.
        name: String,
        /// How many.
        count: u64,
        /// Of how many.
        runs: usize,
    },
    /// Medians that would not come out the same again.
    Wide {
        /// The entries.
        names: Vec<String>,
    },
    /// The host was busy before measuring began.
    Loaded {
        /// Its load.
        load: f64,
        /// Its CPUs.
        cpus: usize,
    },
    /// An entry whose counterpart was not measured.
    NoReference {
        /// The entries.
        names: Vec<String>,
    },
    /// The counter may change its rate.
    TscVaries,
    /// The CPU is emulated.
    Emulated,
    /// Spinning with nobody to spin for.
    SpinOnOneCpu,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outliers { name, count, runs } => write!(
                f,
                "{name}: outliers in {count} of {runs} runs move the median; close other programs, \
                 or ask for more with --runs"
            ),
            Self::Wide { names } => write!(
                f,
                "a spread of more than {} in {}: a quiet host, other CPUs (--cpu) or longer runs \
                 (--min-time) may help; ratios suffer less than times",
                units::percent(WIDE),
                list(names)
            ),
            Self::Loaded { load, cpus } => write!(
                f,
                "the load was {load:.1} on {cpus} CPUs before measuring began; rows that wake \
                 another CPU suffer most"
            ),
            Self::NoReference { names } => write!(
                f,
                "no ratio for {}: what it is compared with was not measured; leave out --only, or \
                 name it too",
                list(names)
            ),
            Self::TscVaries => f.write_str(
                "the CPU does not promise a constant time stamp counter; times measured inside \
                 the guest may be off",
            ),
            Self::Emulated => f.write_str(
                "the CPU is emulated instruction by instruction; counts are right, times mean \
                 nothing",
            ),
            Self::SpinOnOneCpu => f.write_str(
                "spinning with both sides on one CPU only delays the other side; give two with \
                 --cpu, or use --spin sleep",
            ),
        }
    }
}

/// The first names, and how many more there are.
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

/// All doubts about `report`.
#[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
pub fn warnings(report: &Report) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let names = |pick: &dyn Fn(&super::Row) -> bool| -> Vec<String> {
        report
            .results
            .iter()
            .filter(|row| row.is_ok() && pick(row))
            .map(|row| row.command.clone())
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
    if load > BUSY * cpus as f64 {
        warnings.push(Warning::Loaded { load, cpus });
    }
    let one_cpu = report
        .cpus
        .iter()
        .all(|cpu| report.cpus.first() == Some(cpu));
    if has_guest && report.spin == "spin" && one_cpu {
        warnings.push(Warning::SpinOnOneCpu);
    }
    let unmatched = names(&|o| o.reference.is_some() && o.ratio.is_none());
    if !unmatched.is_empty() {
        warnings.push(Warning::NoReference { names: unmatched });
    }
    let wide = names(&|o| o.spread.is_some_and(|spread| spread > WIDE));
    if !wide.is_empty() {
        warnings.push(Warning::Wide { names: wide });
    }
    warnings.extend(
        report
            .results
            .iter()
            .filter(|row| row.outliers > 0 && row.outliers_shift > MOVES)
            .map(|row| Warning::Outliers {
                name: row.command.clone(),
                count: row.outliers,
                runs: row.samples_ns.len(),
            }),
    );
    warnings
}

#[cfg(test)]
#[path = "warnings_test.rs"]
mod tests;
