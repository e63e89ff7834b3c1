//! Counts KVM's events while a pattern runs: exits of the VMM's threads by reason, and notifications and interrupts of
//! the whole host, because a kernel thread may send them.

use std::collections::BTreeSet;

use crate::suites::boots::CountedBatch;
use crate::suites::kvm_trace::{
    EventTally, KvmEvent, KvmEventKind, TraceError, TraceRecording, TracedThreads, WantedEvent,
    count,
};
use vmbell_lab::spin::threads;
use vmbell_report::ReasonsOfRun;

/// The recorded events. Filters exclude register writes to interrupt controllers (Intel SDM volume 3, 11.4.1) and port
/// writes to a PC's devices, which are below PCI's ports. The other writes are notifications, because a running virtio
/// driver writes nothing else.
const EVENTS: [WantedEvent; 6] = [
    WantedEvent::all("kvm_exit"),
    WantedEvent::all("kvm_userspace_exit"),
    WantedEvent::only(
        "kvm_mmio",
        "type == 2 && (gpa < 0xfec00000 || gpa > 0xfeefffff)",
    ),
    WantedEvent::all("kvm_fast_mmio"),
    WantedEvent::only("kvm_pio", "rw == 1 && port >= 0x1000"),
    WantedEvent::all("kvm_msi_set_irq"),
];
/// The names of counts that are not exits.
const KICKS: &str = "kicks";
const INTERRUPTS: &str = "interrupts";

/// The counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NetEvents {
    /// The VMM's threads.
    threads: BTreeSet<u32>,
    /// The number of the guest's exits and of returns to the VMM, by reason.
    reasons: ReasonsOfRun,
    /// Notifications.
    kicks: u64,
    /// Interrupts sent as messages.
    interrupts: u64,
}

impl NetEvents {
    /// Records the events of the VMM with this PID from now on.
    pub(super) fn record(process: u32) -> Result<TraceRecording<Self>, TraceError> {
        let threads = threads(process)?;
        let tally = Self {
            threads,
            ..Self::default()
        };
        TraceRecording::start(&EVENTS, TracedThreads::All, tally)
    }

    /// The counts for this number of operations.
    pub(super) fn counted(self, operations: f64) -> CountedBatch {
        CountedBatch {
            operations,
            reasons: self.reasons,
            counts: vec![(KICKS, self.kicks), (INTERRUPTS, self.interrupts)],
            events: Vec::new(),
        }
    }
}

impl EventTally for NetEvents {
    fn add(&mut self, event: KvmEvent<'_>) -> Result<(), TraceError> {
        let is_vmms = self.threads.contains(&event.thread);
        match event.what {
            KvmEventKind::Exit(reason) if is_vmms => count(&mut self.reasons.exits, reason)?,
            KvmEventKind::Userspace(reason) if is_vmms => {
                count(&mut self.reasons.userspace, reason)?;
            }
            KvmEventKind::MmioWrite(_) | KvmEventKind::Port(_) if is_vmms => self.kicks += 1,
            KvmEventKind::Msi => self.interrupts += 1,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
