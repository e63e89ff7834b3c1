//! What reports of rings or of interrupts add: the work that all rows do, and what counts its events.

use serde::{Deserialize, Serialize};

/// The work that all rows do, and the events that were counted during it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Work {
    /// The work that all rows do, in words.
    pub text: String,
    /// One operation, in one word: `interrupt`, `buffer`.
    pub operation: String,
    /// What counted the events: tracepoints or statistics of the kernel, the backend, or `perf_event_open(2)`.
    pub source: String,
    /// The events that the report always shows, each with what the host counts of it; empty for interrupts.
    pub events: Vec<Counted>,
}

/// An event, and whether this host counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counted {
    /// The event's name, as `perf list` has it.
    pub event: String,
    /// The unit of the counts.
    pub unit: EventUnit,
    /// Which part of the work is counted; `None` if this host does not count the event.
    pub scope: Option<Scope>,
    /// Why this host does not count the event; `None` if it does.
    pub reason: Option<String>,
}

/// The unit of an event's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventUnit {
    /// How often the event happened.
    Count,
    /// Nanoseconds.
    Ns,
}

/// Which part of the work an event is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// User mode and the kernel.
    All,
    /// User mode only: the host does not allow counting in the kernel.
    User,
}
