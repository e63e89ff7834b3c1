//! Counts KVM's events while a pattern runs: exits of the VMM's threads by their reasons, and the notifications and
//! interrupts of the whole host, since a thread of the kernel may be who sends them.
//!
//! The events are recorded, and read after the pattern has ended, so that nothing else runs meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read};

use vmbell_report::{Reasons, ReasonsOfRun};

use crate::columns::Counted;
use crate::kvm_trace::{self, Instance, Line, TracefsError, Unreadable, Wanted, What, Whose};

/// The events. Of writes to registers those to the interrupt controllers are left out (Intel SDM volume 3, 11.4.1): the
/// rest are notifications, as a driver of virtio writes nothing else while it works.
const EVENTS: [Wanted; 5] = [
    Wanted {
        event: "kvm_exit",
        filter: None,
    },
    Wanted {
        event: "kvm_userspace_exit",
        filter: None,
    },
    Wanted {
        event: "kvm_mmio",
        filter: Some("type == 2 && (gpa < 0xfec00000 || gpa > 0xfeefffff)"),
    },
    Wanted {
        event: "kvm_fast_mmio",
        filter: None,
    },
    Wanted {
        event: "kvm_msi_set_irq",
        filter: None,
    },
];
/// The names of counts that are not exits.
const KICKS: &str = "kicks";
const INTERRUPTS: &str = "interrupts";
/// The most reasons that are told apart: a kernel has fewer.
const REASONS: usize = 256;

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventsError {
    /// The kernel's trace cannot be used.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The VMM's threads or the trace cannot be read.
    #[error("cannot read {0}")]
    Read(&'static str, #[source] io::Error),
    /// A line is not as the kernel writes it.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The buffer was too small.
    #[error(
        "the kernel's buffer had no room for some events: less of --transactions or --bytes fits"
    )]
    Lost,
    /// There are more reasons than a kernel has.
    #[error("the trace has more than {REASONS} reasons of exits")]
    Reasons,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    /// Exits of the guest, and returns to the VMM.
    pub(super) reasons: ReasonsOfRun,
    /// Notifications.
    pub(super) kicks: u64,
    /// Messages that interrupt.
    pub(super) interrupts: u64,
}

/// A recording.
#[derive(Debug)]
pub(super) struct Recording(Instance);

impl Recording {
    /// Begins to record.
    pub(super) fn start() -> Result<Self, EventsError> {
        Ok(Self(Instance::new(&EVENTS, Whose::All)?))
    }

    /// Counts what was recorded, of the VMM with this process.
    pub(super) fn finish(self, process: u32) -> Result<Events, EventsError> {
        self.0.stop()?;
        let threads =
            threads(process).map_err(|error| EventsError::Read("the VMM's threads", error))?;
        let mut pipe = self.0.pipe()?;
        let mut text = Vec::new();
        match pipe.read_to_end(&mut text) {
            Ok(_) => {}
            // All has been read.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(EventsError::Read("the trace", error)),
        }
        if self.0.lost()? > 0 {
            return Err(EventsError::Lost);
        }
        Events::of(&text, &threads)
    }
}

impl Events {
    /// What was counted during this number of operations.
    pub(super) fn counted(self, operations: f64) -> Counted {
        Counted {
            operations,
            reasons: self.reasons,
            counts: vec![(KICKS, self.kicks), (INTERRUPTS, self.interrupts)],
        }
    }

    fn of(text: &[u8], threads: &BTreeSet<u32>) -> Result<Self, EventsError> {
        let mut events = Self::default();
        let mut lines = text.split(|byte| *byte == b'\n');
        // Behind the end of the last line is nothing.
        if lines.next_back().is_some_and(|rest| !rest.is_empty()) {
            return Err(Unreadable.into());
        }
        for line in lines {
            let event = match kvm_trace::parse(line)? {
                Line::Event(event) => event,
                Line::Lost => return Err(EventsError::Lost),
                Line::Other => continue,
            };
            let is_vmms = threads.contains(&event.thread);
            match event.what {
                What::Exit(reason) if is_vmms => count(&mut events.reasons.exits, reason)?,
                What::Userspace(reason) if is_vmms => count(&mut events.reasons.userspace, reason)?,
                What::MmioWrite if is_vmms => events.kicks += 1,
                What::Msi => events.interrupts += 1,
                _ => {}
            }
        }
        Ok(events)
    }
}

fn count(reasons: &mut Reasons, reason: &str) -> Result<(), EventsError> {
    if let Some(count) = reasons.get_mut(reason) {
        *count += 1;
        return Ok(());
    }
    if reasons.len() >= REASONS {
        return Err(EventsError::Reasons);
    }
    reasons.insert(reason.to_owned(), 1);
    Ok(())
}

/// The threads of a process.
pub(super) fn threads(process: u32) -> io::Result<BTreeSet<u32>> {
    let mut threads = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let name = entry?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(threads)
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
