//! The options of a comparison, and its results.

use serde::{Serialize, Serializer};

use super::{Difference, RowKey, can_show_a_change};
use crate::Timing;
use crate::text::visible;

/// How the reports of both sides are paired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// The sides were measured at different times.
    #[default]
    Apart,
    /// The first reports of both sides were measured in one turn, one right after the other, then the second reports,
    /// and so on: what slowed the host down in a turn slowed both sides down.
    Turns,
}

/// The options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CompareOptions {
    /// How the reports of both sides are paired.
    pub pairing: Pairing,
    /// The seed of all random draws.
    pub seed: u64,
    /// How often the reports are resampled for an interval.
    pub resamples: usize,
    /// How far a ratio may be from 1 for its row to count as the same: 0.05 is 5 %.
    pub band: f64,
    /// Whether to compare reports even if they measure different things, or measure in different ways.
    pub allow_different: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            pairing: Pairing::Apart,
            seed: 0,
            resamples: 4000,
            band: 0.05,
            allow_different: false,
        }
    }
}

/// What changed from the old reports to the new ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What a nanosecond of the medians means.
    #[serde(flatten)]
    pub timing: Timing,
    /// The options.
    #[serde(flatten)]
    pub options: CompareOptions,
    /// How many reports the old side has.
    pub old_reports: usize,
    /// How many reports the new side has.
    pub new_reports: usize,
    /// The rows that both sides measured, in the order of the old side.
    pub rows: Vec<ComparedRow>,
    /// How the reports differ apart from their numbers.
    pub differences: Vec<Difference>,
    /// The rows that only the old side measured.
    pub only_old: Vec<RowKey>,
    /// The rows that only the new side measured.
    pub only_new: Vec<RowKey>,
    /// The rows that the old side measured and that failed on the new side.
    pub failed_now: Vec<FailedRow>,
    /// What readers must know to judge the verdicts, in sentences.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The rows that became slower by more than `threshold` (0.05 is 5 %): their whole interval is above it, and the
    /// change is significant among all rows.
    pub fn worse_than(&self, threshold: f64) -> impl Iterator<Item = &ComparedRow> {
        let is_above = move |row: &&ComparedRow| {
            // A count that was 0 has no interval, and any other count is above every threshold.
            let above = row.interval.is_none_or(|[low, _]| low > 1.0 + threshold);
            row.verdict == Verdict::Slower && above
        };
        self.rows.iter().filter(is_above)
    }

    /// The rows that may be slower by more than `threshold`, but are not in [`worse_than`](Self::worse_than): their
    /// interval reaches above it.
    pub fn unclear_at(&self, threshold: f64) -> impl Iterator<Item = &ComparedRow> {
        let limit = 1.0 + threshold;
        let is_unclear = move |row: &&ComparedRow| {
            let Some([low, high]) = row.interval else {
                return false;
            };
            let may_be_slower = match row.verdict {
                Verdict::Same | Verdict::Inconclusive => true,
                Verdict::Slower => low <= limit,
                Verdict::Faster => false,
            };
            may_be_slower && limit < high
        };
        self.rows.iter().filter(is_unclear)
    }

    /// Whether there are enough data to find that any row is slower. A row can be the same with fewer.
    pub fn can_judge(&self) -> bool {
        let is_counted = self.timing == Timing::Instructions;
        let has_enough = |row: &ComparedRow| {
            let (old, new) = (row.old.reports, row.new.reports);
            row.ratio.is_some() && can_show_a_change(old, new, self.options.pairing)
        };
        self.rows.iter().any(|row| is_counted || has_enough(row))
    }
}

/// A row that both sides measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// What the row measures.
    #[serde(flatten)]
    pub key: RowKey,
    /// The old side's number.
    pub old: Side,
    /// The new side's number.
    pub new: Side,
    /// New over old: below 1 is faster. With [`Pairing::Turns`] this is the median of the turns' ratios, otherwise the
    /// ratio of the sides' medians. `None` if a median is not above zero or both are bounds. If one median is a bound,
    /// so is the ratio.
    pub ratio: Option<f64>,
    /// The 95 % confidence interval of the ratio; `None` if there are too few samples for one.
    pub interval: Option<[f64; 2]>,
    /// The p-value: the share of permutations with a difference at least as large as the measured one. The permuted
    /// values would be interchangeable if nothing had changed. `None` if the numbers are exact or insufficient.
    pub p: Option<f64>,
    /// `p` as the least false discovery rate (Benjamini-Hochberg) at which this row counts as changed among all rows.
    pub adjusted_p: Option<f64>,
    /// The verdict from the ratio, the interval and the p-value.
    pub verdict: Verdict,
    /// Why the row has no verdict: set exactly if it is inconclusive.
    pub reason: Option<NoVerdict>,
}

/// Why a row has no verdict, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// A median is zero or below, so there is no ratio.
    #[error("a time that is not above zero has no ratio; measure longer runs")]
    NotPositive,
    /// Both medians are below the row's resolution.
    #[error("both medians are below the row's resolution, so their ratio is unknown")]
    BelowResolution,
    /// Only one report of each side measured the row, so nothing shows how much two measurements of the same row
    /// differ.
    #[error(
        "with one report per side, run-to-run variation is unknown; measure both sides several times, in turns"
    )]
    OneReport,
    /// With this few reports, no numbers could show that a single row changed.
    #[error("there are too few reports to tell a change from noise; measure more, in turns")]
    TooFew,
    /// The interval does not contain 1, but among all rows the change is not significant.
    #[error("not significant among all rows; measure more reports, or fewer rows")]
    NotSignificant,
    /// The interval contains 1, and also ratios outside the band.
    #[error(
        "the interval is too wide: it contains 1 and a change that counts; measure more reports, in turns"
    )]
    WideInterval,
    /// The counts of instructions of the two sides overlap.
    #[error("the counts of the two sides overlap; measure more reports")]
    CountsOverlap,
}

impl Serialize for NoVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A row that failed on the new side and was measured on the old side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedRow {
    /// What the row measures.
    #[serde(flatten)]
    pub key: RowKey,
    /// Why the row failed, according to the first report.
    pub reason: Option<String>,
}

/// One side's number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The median over the reports of their medians over runs; for a bound, the row's resolution.
    pub median_ns: f64,
    /// How many reports measured the row.
    pub reports: usize,
    /// The number of runs in these reports together.
    pub runs: usize,
    /// Whether the median is below the row's resolution, so that no more is known.
    pub is_bound: bool,
}

/// What a comparison says about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The new side takes less: the interval is below 1, and the change is significant among all rows.
    Faster,
    /// The new side takes more: the interval is above 1, and the change is significant among all rows.
    Slower,
    /// The whole interval is within the band around 1.
    Same,
    /// There are not enough data for another verdict; [`ComparedRow::reason`] says why.
    Inconclusive,
}

impl Verdict {
    /// The verdict in words: `faster` or `slower` for times, `cheaper` or `more expensive` for instructions.
    pub const fn in_words(self, timing: Timing) -> &'static str {
        match (self, timing) {
            (Self::Faster, Timing::Native | Timing::Emulated) => "faster",
            (Self::Slower, Timing::Native | Timing::Emulated) => "slower",
            (Self::Faster, Timing::Instructions) => "cheaper",
            (Self::Slower, Timing::Instructions) => "more expensive",
            (Self::Same, _) => "same",
            (Self::Inconclusive, _) => "inconclusive",
        }
    }
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideOf {
    /// The old reports.
    Old,
    /// The reports that are compared with the old ones.
    New,
}

impl std::fmt::Display for SideOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Old => "old",
            Self::New => "new",
        })
    }
}

/// Why reports cannot be compared.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// One side has no report.
    #[error("the {0} side has no report")]
    NoReport(SideOf),
    /// The sides are compared turn by turn, and differ in length.
    #[error("turns need as many old reports as new ones, and there are {old} and {new}")]
    Turns {
        /// The number of old reports.
        old: usize,
        /// The number of new reports.
        new: usize,
    },
    /// A report has two rows that measure the same thing.
    #[error("report {report} of the {side} side has the row {key} twice")]
    Twice {
        /// The side.
        side: SideOf,
        /// Which report of the side, counted from 1.
        report: usize,
        /// The row.
        key: RowKey,
    },
    /// The reports do not measure the same thing in the same way.
    #[error("the reports are not comparable: {}", list(.0))]
    Different(Vec<Difference>),
    /// Some reports count instructions, and others measure time.
    #[error("instructions and times have no ratio")]
    Units,
    /// No row was measured on both sides.
    #[error("no row was measured on both sides{}", failures(.failed_now))]
    NothingInCommon {
        /// The rows that were measured before and failed now.
        failed_now: Vec<FailedRow>,
    },
}

fn failures(rows: &[FailedRow]) -> String {
    let row = |FailedRow { key, reason }: &FailedRow| match reason {
        Some(reason) => format!("; {key} failed now: {}", visible(reason)),
        None => format!("; {key} failed now"),
    };
    rows.iter().map(row).collect()
}

fn list(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
