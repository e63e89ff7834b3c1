//! What programs count, and which metrics they count only on request.

/// What a program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// How often `KVM_RUN` returned to the VMM.
    ToVmm,
    /// Writes that signalled an ioeventfd.
    Rings,
    /// Interrupts raised by irqfds.
    Irqfds,
    /// Messages sent with `KVM_SIGNAL_MSI`.
    Messages,
    /// Lines raised.
    Lines,
    /// vCPUs woken or interrupted.
    Kicks,
    /// EOIs.
    Eois,
    /// EOIs that were a bit in memory.
    PvEois,
    /// All exits of guests, by the CPU's reasons.
    Exits,
    /// Nanoseconds from a return of `KVM_RUN` until the next call.
    VmmTime,
    /// Accesses answered by a KVM device, or by KVM itself for an MSR.
    ByKvm,
}

impl Metric {
    /// All metrics.
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

    /// Whether the metric is counted only on request, because counting it slows VMs down further.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Exits | Self::VmmTime | Self::ByKvm)
    }

    /// Whether KVM can report the metric on this architecture. On arm64 the GIC ends interrupts without KVM, and the
    /// exit tracepoint does not say which vCPU exited.
    pub const fn exists(self) -> bool {
        cfg!(target_arch = "x86_64")
            || !matches!(self, Self::Eois | Self::PvEois | Self::Exits | Self::ByKvm)
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
