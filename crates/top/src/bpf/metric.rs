//! What programs count, and which of it they count only if it is asked for.

/// What a program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Returns of `KVM_RUN` to the VMM.
    ToVmm,
    /// Writes that signalled an ioeventfd.
    Rings,
    /// Interrupts by irqfds.
    Irqfds,
    /// Messages by `KVM_SIGNAL_MSI`.
    Messages,
    /// Lines raised.
    Lines,
    /// vCPUs woken or interrupted.
    Kicks,
    /// Ends of interrupts.
    Eois,
    /// Those of them that were a bit in memory.
    PvEois,
    /// All exits of guests, by the CPU's reasons.
    Exits,
    /// Nanoseconds from a return of `KVM_RUN` until the next call.
    VmmTime,
    /// Accesses that a device of KVM answered, or KVM itself for an MSR.
    ByKvm,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::ToVmm,
        Self::Rings,
        Self::Irqfds,
        Self::Messages,
        Self::Lines,
        Self::Kicks,
        Self::Eois,
        Self::PvEois,
        Self::Exits,
        Self::VmmTime,
        Self::ByKvm,
    ];

    /// Whether it is counted only if it is asked for, because it slows down VMs further.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Exits | Self::VmmTime | Self::ByKvm)
    }

    /// Whether KVM can tell it on this architecture. On arm64 the GIC ends interrupts without KVM, and the tracepoint of exits does
    /// not say of which vCPU.
    pub const fn exists(self) -> bool {
        match self {
            Self::Eois | Self::PvEois | Self::Exits | Self::ByKvm => cfg!(target_arch = "x86_64"),
            _ => true,
        }
    }

    /// What is counted, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToVmm => "exits to the VMM",
            Self::Rings => "ioeventfds",
            Self::Irqfds => "irqfds",
            Self::Messages => "MSIs by ioctl",
            Self::Lines => "lines",
            Self::Kicks => "kicks",
            Self::Eois => "EOIs",
            Self::PvEois => "EOIs by PV EOI",
            Self::Exits => "exits by reason",
            Self::VmmTime => "time in the VMM",
            Self::ByKvm => "accesses that KVM answers",
        }
    }
}
