//! Counts of a guest's events by the names of KVM's tracepoints. The code in which an event happens counts it:
//! the kernel, or the usermode engine.

use std::collections::BTreeMap;
use std::{fmt, io};

/// How often each event has happened, by its name, for example `kvm:kvm_exit`.
pub type EventCounts = BTreeMap<String, u64>;

/// Counts the events of one guest.
pub trait EventCounter: fmt::Debug + Send {
    /// The origin of the counts, for reports.
    fn source(&self) -> &str;

    /// The name of the event that counts exits.
    fn exits(&self) -> &str;

    /// The counts so far, including those of events that never happened.
    fn read(&mut self) -> io::Result<EventCounts>;
}
