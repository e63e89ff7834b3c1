//! KVM's own events of other programs, by tracefs: which thread left the guest, and why. This takes root.
//!
//! `instance` is a trace buffer that no other program uses, `line` parses what is read of it, and `recording` reads it while a
//! VMM runs and counts by a [`Tally`].

mod instance;
mod line;
mod recording;

use self::instance::TracefsError;
pub(crate) use self::instance::{Instance, Wanted, Whose};
pub(crate) use self::line::{Event, What};
use self::line::{Line, Unreadable, parse};
#[cfg(test)]
pub(crate) use self::recording::Lines;
pub(crate) use self::recording::{Recording, Tally, TraceError, bounded, count};
