//! The names of the properties in which backends differ.

use std::fmt;

/// Something that a backend may be able to do on this host.
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
    /// Several doorbells on one address, even with the same match.
    DoorbellGroups,
    /// Doorbells with and without a datamatch on the same address.
    MixedGroups,
    /// A doorbell that stores the written value without an exit
    /// ([`register_payload`](super::IoEvents::register_payload)).
    PayloadDoorbell,
    /// Replace instructions that trap often with `int3`.
    Int3Patching,
    /// Replace `out` instructions and stores that trap often with a jump that does not trap.
    JmpPatching,
    /// A signal to an eventfd whose count is at its limit sets the overflow count, which poll reports as `EPOLLERR`,
    /// and never blocks the vCPU.
    SilentSaturation,
    /// Coalesced writes: the kernel buffers them until the guest exits for another reason.
    CoalescedMmio,
    /// A port that a device in the kernel answers.
    KernelPort,
    /// The CPU's own hypercall instruction, answered below the VMM.
    HypercallInstruction,
    /// A call of the hypercall page reaches the VMM.
    HypercallExit,
    /// Every access to a system register of the CPU reaches the VMM.
    RegisterExits,
    /// The minimum cost of an exit can be measured separately, by a bare loop around
    /// [`Vcpu::descriptor`](super::Vcpu::descriptor).
    BareLoop,
    /// Guests that use privileged code: kernels, kvm-unit-tests.
    Kernels,
    /// Guests can use virtualization themselves, so that a Linux guest has KVM
    /// ([`virtualization`](super::VmConfig::virtualization)).
    Virtualization,
    /// Guest code in ring 0 runs on the CPU; otherwise the backend emulates it instruction by instruction.
    NativeKernelMode,
    /// Exits that are answered below the VMM are counted ([`ExitCounts::light`](super::measure::ExitCounts::light)).
    CountsLightExits,
    /// Interrupt controllers below the VMM, and irqfds.
    Interrupts,
    /// Message-signalled interrupts, which PCI devices use instead of a line, reach the guest
    /// ([`Irqs::signal_msi`](super::Irqs::signal_msi), routes to messages).
    Messages,
    /// An interrupt stays in service until the guest's EOI, as the CPU manuals specify.
    EndOfInterrupt,
    /// The guest's EOI of an assigned device's interrupt also completes the physical interrupt
    /// ([`AssignedDevices::forward_interrupt`](super::AssignedDevices::forward_interrupt)).
    ForwardedInterrupts,
    /// The guest's EOI of a level-triggered interrupt also ends the interrupt for the device
    /// ([`Irqs::forward_line`]).
    ///
    /// [`Irqs::forward_line`]: super::Irqs::forward_line
    ForwardedLines,
    /// Device memory can be mapped and unmapped while the guest runs; otherwise its mappings are fixed when the guest
    /// is created.
    MovableDeviceMemory,
    /// A guest can be saved, and continued in another process ([`VcpuSnapshot`](super::VcpuSnapshot),
    /// [`Vm::save`](super::Vm::save)).
    Snapshots,
    /// A heavy exit switches threads, so it matters how each side waits for the other.
    SpinPolicy,
}

impl Capability {
    /// All capabilities, in the order in which `probe` prints them.
    pub const ALL: [Self; 28] = [
        Self::Run,
        Self::PioDoorbell,
        Self::MmioDoorbell,
        Self::HypercallDoorbell,
        Self::DoorbellGroups,
        Self::MixedGroups,
        Self::PayloadDoorbell,
        Self::Int3Patching,
        Self::JmpPatching,
        Self::SilentSaturation,
        Self::CoalescedMmio,
        Self::KernelPort,
        Self::HypercallInstruction,
        Self::HypercallExit,
        Self::RegisterExits,
        Self::BareLoop,
        Self::Kernels,
        Self::Virtualization,
        Self::NativeKernelMode,
        Self::CountsLightExits,
        Self::Interrupts,
        Self::Messages,
        Self::EndOfInterrupt,
        Self::ForwardedInterrupts,
        Self::ForwardedLines,
        Self::MovableDeviceMemory,
        Self::Snapshots,
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
            Self::PayloadDoorbell => "payload-doorbell",
            Self::CoalescedMmio => "coalesced-mmio",
            Self::KernelPort => "kernel-port",
            Self::HypercallInstruction => "hypercall-instruction",
            Self::HypercallExit => "hypercall-exit",
            Self::RegisterExits => "register-exits",
            Self::BareLoop => "bare-loop",
            Self::Kernels => "kernels",
            Self::Virtualization => "virtualization",
            Self::NativeKernelMode => "native-kernel-mode",
            Self::CountsLightExits => "counts-light-exits",
            Self::Interrupts => "interrupts",
            Self::Messages => "messages",
            Self::EndOfInterrupt => "end-of-interrupt",
            Self::ForwardedInterrupts => "forwarded-interrupts",
            Self::ForwardedLines => "forwarded-lines",
            Self::MovableDeviceMemory => "movable-device-memory",
            Self::Snapshots => "snapshots",
            Self::SpinPolicy => "spin-policy",
        }
    }
}

/// Whether a backend has a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// The backend has it.
    Yes,
    /// The backend does not have it, for this reason.
    No(String),
}

impl Support {
    /// Whether the backend has it.
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
