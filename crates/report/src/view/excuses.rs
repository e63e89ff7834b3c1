//! The rows that were not measured, and why.

use std::collections::HashMap;

use crate::table::{Block, Cell, Paint};
use crate::{Report, Status};

/// Rows that were not measured for the same reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excuse<'r> {
    pub(crate) names: Vec<&'r str>,
    pub(crate) backend: &'r str,
    pub(crate) status: Status,
    pub(crate) reason: &'r str,
}

/// The rows that were not measured, grouped by reason.
pub(crate) fn excuses(report: &Report) -> Vec<Excuse<'_>> {
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
    /// Says which rows were not measured, and why.
    pub(super) fn block(&self, report: &Report) -> Block {
        let paint = match self.status {
            Status::Failed => Paint::Red,
            Status::Ok | Status::Skipped => Paint::Yellow,
        };
        let what = Cell::new(self.what(report), paint);
        Block::Detail(what, self.reason.to_owned())
    }

    /// Says which rows were not measured, as `skipped on kvm: a, b`.
    pub(crate) fn what(&self, report: &Report) -> String {
        let mut backends = report.backends.iter();
        let place = match backends.any(|other| other.name == self.backend) {
            true if report.backends.len() > 1 => format!(" on {}", self.backend),
            _ => String::new(),
        };
        format!("{}{place}: {}", self.status.name(), self.names.join(", "))
    }
}
