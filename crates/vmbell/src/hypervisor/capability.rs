//! What backends differ in, each by name.

use std::fmt;

/// A thing that a backend may or may not do on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Run a guest at all.
    Run,
    /// A doorbell on an I/O port.
    PioDoorbell,
    /// A doorbell on a guest-physical address.
    MmioDoorbell,
    /// A doorbell on a hypercall number.
    HypercallDoorbell,
    /// Several items on one address, and with the same match.
    DoorbellGroups,
    /// Wildcard and matching items together on one address.
    MixedGroups,
    /// Replace hot trapping instructions by `int3`.
    Int3Patching,
    /// Replace hot `out` instructions by a jump that does not trap.
    JmpPatching,
    /// A saturated eventfd takes the last count and reports `EPOLLERR`, and never holds the vCPU.
    SilentSaturation,
    /// Writes can be kept back until the guest leaves for another reason.
    CoalescedMmio,
    /// A port that is answered below the VMM by a device there.
    KernelPort,
    /// The CPU's own hypercall instruction, answered below the VMM.
    HypercallInstruction,
    /// A call of the hypercall page reaches the VMM.
    HypercallExit,
    /// Every `rdmsr` and `wrmsr` reaches the VMM.
    MsrExits,
    /// The least that an exit costs can be measured by itself.
    BareLoop,
    /// Guests with ring-0 state of their own: kernels, kvm-unit-tests.
    Kernels,
    /// Interrupt controllers: local APICs, I/O APIC, irqfds.
    Interrupts,
    /// An interrupt is in service until the guest ends it, as the CPU manuals have it.
    EndOfInterrupt,
    /// A heavy exit changes threads, so that it matters how each side waits for the other.
    SpinPolicy,
}

impl Capability {
    /// All of them, in the order that `probe` prints.
    pub const ALL: [Self; 19] = [
        Self::Run,
        Self::PioDoorbell,
        Self::MmioDoorbell,
        Self::HypercallDoorbell,
        Self::DoorbellGroups,
        Self::MixedGroups,
        Self::Int3Patching,
        Self::JmpPatching,
        Self::SilentSaturation,
        Self::CoalescedMmio,
        Self::KernelPort,
        Self::HypercallInstruction,
        Self::HypercallExit,
        Self::MsrExits,
        Self::BareLoop,
        Self::Kernels,
        Self::Interrupts,
        Self::EndOfInterrupt,
        Self::SpinPolicy,
    ];

    /// The name that users see and type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::PioDoorbell => "pio-doorbell",
            Self::MmioDoorbell => "mmio-doorbell",
            Self::HypercallDoorbell => "hypercall-doorbell",
            Self::DoorbellGroups => "doorbell-groups",
            Self::Int3Patching => "int3-patching",
            Self::JmpPatching => "jmp-patching",
            Self::SilentSaturation => "silent-saturation",
            Self::MixedGroups => "mixed-groups",
            Self::CoalescedMmio => "coalesced-mmio",
            Self::KernelPort => "kernel-port",
            Self::HypercallInstruction => "hypercall-instruction",
            Self::HypercallExit => "hypercall-exit",
            Self::MsrExits => "msr-exits",
            Self::BareLoop => "bare-loop",
            Self::Kernels => "kernels",
            Self::Interrupts => "interrupts",
            Self::EndOfInterrupt => "end-of-interrupt",
            Self::SpinPolicy => "spin-policy",
        }
    }
}

/// Whether a capability is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It is.
    Yes,
    /// It is not, for this reason.
    No(String),
}

impl Support {
    /// Whether it is there.
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("yes"),
            Self::No(reason) => write!(f, "no: {reason}"),
        }
    }
}
