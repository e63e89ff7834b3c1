//! Counts KVM's events while a pattern runs: exits of the VMM's threads by their reasons, and the notifications and
//! interrupts of the whole host, since a thread of the kernel may send them.

use std::collections::BTreeSet;

use crate::suites::boots::Counted;
use crate::suites::kvm_trace::{Event, Recording, Tally, TraceError, Wanted, What, Whose, count};
use vmbell_lab::spin::threads;
use vmbell_report::ReasonsOfRun;

/// The events. Of writes to registers those to the interrupt controllers are left out (Intel SDM volume 3, 11.4.1), and of those to
/// ports those to the devices of a PC, which are below the ports of PCI: the rest are notifications, as a driver of virtio writes
/// nothing else while it works.
const EVENTS: [Wanted; 6] = [
    Wanted::all("kvm_exit"),
    Wanted::all("kvm_userspace_exit"),
    Wanted::only(
        "kvm_mmio",
        "type == 2 && (gpa < 0xfec00000 || gpa > 0xfeefffff)",
    ),
    Wanted::all("kvm_fast_mmio"),
    Wanted::only("kvm_pio", "rw == 1 && port >= 0x1000"),
    Wanted::all("kvm_msi_set_irq"),
];
/// The names of counts that are not exits.
const KICKS: &str = "kicks";
const INTERRUPTS: &str = "interrupts";

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    /// The VMM's threads.
    threads: BTreeSet<u32>,
    /// Exits of the guest, and returns to the VMM.
    reasons: ReasonsOfRun,
    /// Notifications.
    kicks: u64,
    /// Messages that interrupt.
    interrupts: u64,
}

impl Events {
    /// Records the events of the VMM with this process from now on.
    pub(super) fn record(process: u32) -> Result<Recording<Self>, TraceError> {
        let threads = threads(process)?;
        let tally = Self {
            threads,
            ..Self::default()
        };
        Recording::start(&EVENTS, Whose::All, tally)
    }

    /// What was counted during this number of operations.
    pub(super) fn counted(self, operations: f64) -> Counted {
        Counted {
            operations,
            reasons: self.reasons,
            counts: vec![(KICKS, self.kicks), (INTERRUPTS, self.interrupts)],
            events: Vec::new(),
        }
    }
}

impl Tally for Events {
    fn add(&mut self, event: Event<'_>) -> Result<(), TraceError> {
        let is_vmms = self.threads.contains(&event.thread);
        match event.what {
            What::Exit(reason) if is_vmms => count(&mut self.reasons.exits, reason)?,
            What::Userspace(reason) if is_vmms => count(&mut self.reasons.userspace, reason)?,
            What::MmioWrite(_) | What::Port(_) if is_vmms => self.kicks += 1,
            What::Msi => self.interrupts += 1,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "events_test.rs"]
mod tests;
