//! The exits of some operations, by their reasons.

use std::collections::BTreeMap;

/// Exits that the time causes at which an interrupt comes, by the names of Intel's and AMD's reasons: the host's own
/// interrupts, which `vmbell bench` leaves out too (the statistic `irq_exits`), its NMIs, and the exits at which KVM waits
/// until a guest lets an interrupt in that came while it masked them.
const HOST: [&str; 7] = [
    "EXTERNAL_INTERRUPT",
    "NMI",
    "INTERRUPT_WINDOW",
    "PENDING_INTERRUPT",
    "interrupt",
    "nmi",
    "vintr",
];
/// Returns to the VMM because a signal came, which no exit of the guest caused.
const SIGNAL: &str = "restart";

/// How often something happened, for each reason.
pub(crate) type Reasons = BTreeMap<String, u64>;

/// What happened in one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Exits.
    pub(crate) exits: Reasons,
    /// Returns to the VMM.
    pub(crate) userspace: Reasons,
}

impl Batch {
    /// The exits that the guest causes.
    pub(crate) fn of_guest(&self) -> u64 {
        let of_guest = |(reason, _): &(&String, &u64)| !HOST.contains(&reason.as_str());
        let reasons = self.exits.iter().filter(of_guest);
        reasons.map(|(_, count)| count).sum()
    }

    /// The returns to the VMM that the guest causes.
    pub(crate) fn returns(&self) -> u64 {
        let reasons = self.userspace.iter();
        let of_guest = reasons.filter(|(reason, _)| *reason != SIGNAL);
        of_guest.map(|(_, count)| count).sum()
    }
}
