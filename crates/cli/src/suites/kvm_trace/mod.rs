//! KVM's events in other programs, from tracefs: which thread left the guest, and why. This needs root.
//!
//! `instance` is a private trace buffer, `line` parses its lines, and `recording` reads it while a VMM runs and counts
//! with an [`EventTally`].

mod instance;
mod line;
mod recording;

pub(crate) use self::instance::{TraceInstance, TracedThreads, WantedEvent};
pub(crate) use self::line::{KvmEvent, KvmEventKind};
#[cfg(test)]
pub(crate) use self::recording::TraceLines;
pub(crate) use self::recording::{EventTally, TraceError, TraceRecording, bounded, count};
