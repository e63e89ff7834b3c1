//! Matches the rows of both sides that measure the same thing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::{CompareError, FailedRow, Pairing, SideOf};
use crate::text::visible;
use crate::{Group, Report, Row, Status, Timing};

/// What a row measures. Rows with equal keys are compared with each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RowKey {
    /// The entry's name.
    pub command: String,
    /// The entry's group.
    pub group: Group,
    /// The backend that ran the guest, or `host` where no guest took part.
    pub backend: String,
    /// What distinguishes the entry from similar entries, if its name does not say so.
    pub parameters: BTreeMap<String, String>,
}

impl RowKey {
    pub(crate) fn of(row: &Row) -> Self {
        Self {
            command: row.command.clone(),
            group: row.group,
            backend: row.backend.clone(),
            parameters: row.parameters.clone(),
        }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", visible(&self.command), visible(&self.backend))
    }
}

/// A row of both sides: for each side, the measured rows of its reports. With [`Pairing::Turns`], rows with the same
/// index belong to the same turn.
#[derive(Debug)]
pub(crate) struct MatchedRow<'r> {
    pub(crate) key: RowKey,
    pub(crate) old: Vec<&'r Row>,
    pub(crate) new: Vec<&'r Row>,
    /// Whether all these rows count instructions, which are exact.
    pub(crate) is_counted: bool,
}

/// The rows of both sides.
#[derive(Debug)]
pub(crate) struct Matching<'r> {
    pub(crate) rows: Vec<MatchedRow<'r>>,
    pub(crate) only_old: Vec<RowKey>,
    pub(crate) only_new: Vec<RowKey>,
    pub(crate) failed_now: Vec<FailedRow>,
}

/// Matches the measured rows of both sides.
pub(crate) fn matched<'r>(
    old: &'r [Report],
    new: &'r [Report],
    pairing: Pairing,
) -> Result<Matching<'r>, CompareError> {
    let now = new;
    let old = RowsByKey::of(old, SideOf::Old)?;
    let new = RowsByKey::of(now, SideOf::New)?;
    let mut matching = Matching {
        rows: Vec::new(),
        only_old: Vec::new(),
        only_new: Vec::new(),
        failed_now: Vec::new(),
    };
    let failed = failed(now);
    for key in &old.keys {
        let (olds, news) = (old.row(key).into_iter(), new.row(key).into_iter());
        let (olds, news): (Vec<&Row>, Vec<&Row>) = match pairing {
            Pairing::Apart => (olds.flatten().collect(), news.flatten().collect()),
            Pairing::Turns => olds.zip(news).filter_map(|(old, new)| old.zip(new)).unzip(),
        };
        let is_measured = !olds.is_empty() && !news.is_empty();
        let key = || key.clone();
        match failed.get(&key()) {
            Some(reason) => matching.failed_now.push(FailedRow {
                key: key(),
                reason: reason.map(str::to_owned),
            }),
            None if !is_measured => matching.only_old.push(key()),
            None => {}
        }
        if is_measured {
            matching.rows.push(MatchedRow {
                key: key(),
                is_counted: old.is_counted && new.is_counted,
                old: olds,
                new: news,
            });
        }
    }
    let olds: HashSet<&RowKey> = old.keys.iter().collect();
    let is_new = |key: &&RowKey| !olds.contains(key);
    matching.only_new = new.keys.iter().filter(is_new).cloned().collect();
    Ok(matching)
}

/// The rows that failed, each with the reason from the first report in which it failed.
fn failed(reports: &[Report]) -> HashMap<RowKey, Option<&str>> {
    let rows = reports.iter().flat_map(|report| &report.results);
    let mut failed = HashMap::new();
    for row in rows.filter(|row| row.status() == Status::Failed) {
        failed.entry(RowKey::of(row)).or_insert(row.reason());
    }
    failed
}

/// The measured rows of one side.
struct RowsByKey<'r> {
    /// The keys in the order of the reports.
    keys: Vec<RowKey>,
    /// The rows of each report by their keys.
    reports: Vec<HashMap<RowKey, &'r Row>>,
    is_counted: bool,
}

impl<'r> RowsByKey<'r> {
    fn of(reports: &'r [Report], side: SideOf) -> Result<Self, CompareError> {
        if reports.is_empty() {
            return Err(CompareError::NoReport(side));
        }
        let mut rows = Self {
            keys: Vec::new(),
            reports: Vec::new(),
            is_counted: reports
                .iter()
                .all(|report| report.timing == Timing::Instructions),
        };
        let mut seen = HashSet::new();
        for (index, report) in reports.iter().enumerate() {
            let measured = report.results.iter().filter(|row| row.is_ok());
            let mut keyed: HashMap<RowKey, &Row> = HashMap::new();
            for row in measured {
                let key = RowKey::of(row);
                if keyed.insert(key.clone(), row).is_some() {
                    let report = index + 1;
                    return Err(CompareError::Twice { side, report, key });
                }
                if seen.insert(key.clone()) {
                    rows.keys.push(key);
                }
            }
            rows.reports.push(keyed);
        }
        Ok(rows)
    }

    /// For each report, its row with this key.
    fn row(&self, key: &RowKey) -> Vec<Option<&'r Row>> {
        let reports = self.reports.iter();
        reports.map(|rows| rows.get(key).copied()).collect()
    }
}

#[cfg(test)]
#[path = "matching_test.rs"]
mod tests;
