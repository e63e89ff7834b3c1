//! KVM's own events of other programs, by tracefs: which thread left the guest, and why. This takes root.
//!
//! `instance` is a trace buffer of our own, `line` parses what is read of it, and `batch` is what was counted between two
//! moments.

mod batch;
mod instance;
mod line;

pub(crate) use self::batch::{Batch, Reasons};
pub(crate) use self::instance::{Instance, TracefsError, Wanted, Whose};
pub(crate) use self::line::{Event, Line, Unreadable, What, parse};
