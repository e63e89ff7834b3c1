//! What the boots of a gate measured: of each row, the least, the median and the most of what its boots gave.
//!
//! A boot gives a row one number of each kind, its median over batches, so that a range says how much of a figure is chance.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::verdict::Measured;
use crate::statistics::{median, thousandths};
use crate::{Report, Row, Status, is_of_host};

/// A row whose boots differ by more than this share of its median has no figure that instructions could be held to.
const WIDE: f64 = 0.02;
/// With at least this many boots, a range ignores the lowest and the highest one.
const TRIMMED: usize = 5;

/// The least, the median and the most of several boots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "[f64; 3]")]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The most.
    pub most: f64,
}

/// A range as people may write it: one number where all boots agree.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(f64),
    Three([f64; 3]),
}

/// Three numbers that no boots give.
#[derive(Debug, thiserror::Error)]
#[error(
    "the least, the median and the most are three numbers of at least 0 in this order, not {least}, {median}, {most}"
)]
pub struct NotARange {
    least: f64,
    median: f64,
    most: f64,
}

impl TryFrom<Written> for Range {
    type Error = NotARange;

    fn try_from(written: Written) -> Result<Self, NotARange> {
        let [least, median, most] = match written {
            Written::One(number) => [number; 3],
            Written::Three(numbers) => numbers,
        };
        // NaN is in no order.
        match 0.0 <= least && least <= median && median <= most && most.is_finite() {
            true => Ok([least, median, most].into()),
            false => Err(NotARange {
                least,
                median,
                most,
            }),
        }
    }
}

impl From<[f64; 3]> for Range {
    fn from([least, median, most]: [f64; 3]) -> Self {
        Self {
            least,
            median,
            most,
        }
    }
}

impl From<Range> for [f64; 3] {
    fn from(range: Range) -> Self {
        [range.least, range.median, range.most]
    }
}

impl Range {
    /// The range of what the boots gave; `None` without boots. Of five and more, the ends are the second least and the second
    /// most: now and then, an interrupt of the timer falls into most batches of a row.
    pub fn of(boots: &[f64]) -> Option<Self> {
        let mut sorted = boots.to_vec();
        sorted.sort_by(f64::total_cmp);
        let left_out = usize::from(sorted.len() >= TRIMMED);
        Some(Self {
            least: *sorted.get(left_out)?,
            median: thousandths(median(&sorted)?),
            most: *sorted.iter().nth_back(left_out)?,
        })
    }

    /// How far the boots are apart.
    pub fn width(self) -> f64 {
        self.most - self.least
    }

    /// Whether the boots are too far apart for a figure.
    pub fn is_wide(self) -> bool {
        self.width() > WIDE * self.median
    }
}

/// What the boots measured of a row, for one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Instructions of guest, kernel and VMM.
    pub instructions: Range,
    /// Exits that the guest causes; `None` if they were not counted.
    pub exits: Option<Range>,
    /// Those that go on to the VMM.
    pub to_vmm: Option<Range>,
    /// Exits by the kernel's reasons: the median over boots of their means.
    #[serde(default, deserialize_with = "counts")]
    pub reasons: BTreeMap<String, f64>,
    /// Accesses by address, of a row that counts them: the median over boots.
    #[serde(
        default,
        deserialize_with = "counts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub addresses: BTreeMap<String, f64>,
}

/// Reads counts by name, each of which is a number as a range of one.
fn counts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let counts = BTreeMap::<String, f64>::deserialize(from)?;
    for (name, count) in &counts {
        let range = Range::try_from(Written::One(*count));
        range.map_err(|_| {
            D::Error::custom(format!("{name} is a number of at least 0, not {count}"))
        })?;
    }
    Ok(counts)
}

/// What one boot measured of a row.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    instructions: f64,
    exits: Option<f64>,
    to_vmm: Option<f64>,
    reasons: BTreeMap<String, f64>,
    addresses: BTreeMap<String, f64>,
}

/// What the boots of one VMM on one kernel gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    rows: BTreeMap<String, Vec<Sample>>,
    /// All but the figures.
    measured: Measured,
}

/// A boot of a VMM that gave no results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BootFailure {
    /// The boot's seed.
    pub seed: u32,
    /// Why.
    pub reason: String,
    /// What the VMM printed last.
    pub last_output: Option<String>,
}

impl Samples {
    /// Adds what a report, that of the boot with this seed, has of a VMM.
    pub fn add(&mut self, report: &Report, vmm: &str, seed: u32) {
        let Some(told) = report.vmms().iter().find(|told| told.name == vmm) else {
            return;
        };
        let measured = &mut self.measured;
        let kernel = || Some(report.host.kernel.clone());
        measured.kernel = measured.kernel.take().or_else(kernel);
        measured.version = measured.version.take().or_else(|| told.version.clone());
        if told.status != Status::Ok {
            let no_reason = || "it gave no results".to_owned();
            measured.failures.push(BootFailure {
                seed,
                reason: told.reason.clone().unwrap_or_else(no_reason),
                last_output: told.last_output.clone(),
            });
            return;
        }
        let mut has_rows = false;
        let rows = report.results.iter();
        for row in rows.filter(|row| row.backend == vmm) {
            match sample(row) {
                Some(sample) => {
                    has_rows = true;
                    let samples = self.rows.entry(row.command.clone()).or_default();
                    samples.push(sample);
                }
                None => {
                    let reason = row.reason().unwrap_or("it was not measured");
                    measured
                        .absent
                        .insert(row.command.clone(), reason.to_owned());
                }
            }
        }
        if !has_rows {
            let absent = measured.absent.iter().next();
            let why = absent.map_or_else(String::new, |(row, why)| format!(" ({row}: {why})"));
            measured.failures.push(BootFailure {
                seed,
                reason: format!("no row was measured{why}"),
                last_output: None,
            });
        }
    }

    /// The figures of each row that at least one boot measured.
    pub fn measured(self) -> Measured {
        let figures = |(name, samples): (String, Vec<Sample>)| Some((name, Figures::of(&samples)?));
        Measured {
            rows: self.rows.into_iter().filter_map(figures).collect(),
            ..self.measured
        }
    }
}

fn sample(row: &Row) -> Option<Sample> {
    let measured = row.measured()?;
    let exits = measured.exits.unwrap_or_default();
    let reasons = measured.exit_reasons.iter();
    let reasons = reasons
        .flat_map(|reasons| &reasons.kvm_exit)
        .filter(|(reason, _)| !is_of_host(reason))
        .map(|(reason, count)| (reason.clone(), *count))
        .collect();
    #[allow(clippy::cast_precision_loss, reason = "far fewer accesses than 2^53")]
    let address = |(name, runs): (&str, &[u64])| Some((name.to_owned(), *runs.first()? as f64));
    Some(Sample {
        addresses: measured.events.iter().filter_map(address).collect(),
        instructions: thousandths(measured.times.median),
        exits: exits.total,
        to_vmm: exits.userspace,
        reasons,
    })
}

impl Figures {
    fn of(samples: &[Sample]) -> Option<Self> {
        let range = |pick: fn(&Sample) -> Option<f64>| {
            let all: Vec<f64> = samples.iter().filter_map(pick).collect();
            Range::of(&all)
        };
        Some(Self {
            instructions: range(|sample| Some(sample.instructions))?,
            exits: range(|sample| sample.exits),
            to_vmm: range(|sample| sample.to_vmm),
            reasons: medians(samples, |sample| &sample.reasons),
            addresses: medians(samples, |sample| &sample.addresses),
        })
    }
}

/// The median over boots of each number that a boot has by name; one that a boot lacks is zero there.
fn medians(
    samples: &[Sample],
    pick: fn(&Sample) -> &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let mut medians: BTreeMap<String, f64> = BTreeMap::new();
    for name in samples.iter().flat_map(|sample| pick(sample).keys()) {
        let of_boot = |sample: &Sample| pick(sample).get(name).copied().unwrap_or_default();
        let all: Vec<f64> = samples.iter().map(of_boot).collect();
        if let Some(count) = median(&all).filter(|count| *count > 0.0) {
            medians.insert(name.clone(), thousandths(count));
        }
    }
    medians
}

#[cfg(test)]
#[path = "figures_test.rs"]
mod tests;
