//! KVM's own events of other programs, by tracefs: which thread left the guest, and why. This takes root.
//!
//! `instance` is a trace buffer that no other program uses, `line` parses what is read of it. What is counted is
//! [`ReasonsOfRun`](vmbell_report::ReasonsOfRun).

mod instance;
mod line;

pub(crate) use self::instance::{Instance, TracefsError, Wanted, Whose};
pub(crate) use self::line::{Event, Line, Unreadable, What, parse};
