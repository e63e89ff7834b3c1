//! What a report has besides where events were counted: whose they are, and what one operation is.

use serde::{Deserialize, Serialize};

/// The work of all rows, and what was counted of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counting {
    /// How it looks on a terminal.
    pub form: Form,
    /// What is done, in words.
    pub text: String,
    /// What one operation is, in one word: `interrupt`, `buffer`.
    pub operation: String,
    /// Who counts the events.
    pub source: String,
    /// The events that are always shown, and whether they are counted.
    pub events: Vec<Counted>,
}

/// A form on the terminal other than the bench's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A line for each event, and a column for each row of the report.
    Events,
    /// A block for each row of the report, as `perf stat` prints it.
    PerfStat,
}

/// An event, and whether this host counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Its name.
    pub event: String,
    /// What one of it is.
    pub unit: EventUnit,
    /// Whose part is counted, if any is.
    pub scope: Option<Scope>,
    /// Why none is.
    pub reason: Option<String>,
}

/// What one of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventUnit {
    /// One time that it happened.
    Count,
    /// A nanosecond.
    Ns,
}

/// Whose part of the work is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The process's own and what the kernel does for it.
    All,
    /// The process's own: the host does not allow more.
    User,
}
