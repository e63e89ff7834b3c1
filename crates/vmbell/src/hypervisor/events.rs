//! What happens to a guest, counted by whoever makes it happen, by the names of KVM's tracepoints.

use std::collections::BTreeMap;
use std::{fmt, io};

/// How often each event has happened, by name: `kvm:kvm_exit`.
pub type EventCounts = BTreeMap<String, u64>;

/// Counts the events of one guest.
pub trait EventCounter: fmt::Debug + Send {
    /// Who counts, for the report.
    fn source(&self) -> &str;

    /// The name of the event that counts exits.
    fn exits(&self) -> &str;

    /// How often each event has happened so far, those that never did included.
    fn read(&mut self) -> io::Result<EventCounts>;
}
