//! KVM's own events of other programs, by tracefs: which thread left the guest, and why. This takes root.
//!
//! `instance` is a trace buffer that no other program uses, `line` parses what is read of it, and `recording` reads it while a
//! VMM runs and counts by a [`EventTally`].

mod instance;
mod line;
mod recording;

pub(crate) use self::instance::{TraceInstance, TracedThreads, WantedEvent};
pub(crate) use self::line::{KvmEvent, KvmEventKind};
#[cfg(test)]
pub(crate) use self::recording::TraceLines;
pub(crate) use self::recording::{EventTally, TraceError, TraceRecording, bounded, count};
