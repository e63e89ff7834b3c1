//! A guest's interrupt controllers: which of them are below the VMM, the GIC versions of arm64, and their pins.

use std::fmt;

use vmbell_core::ioapic;

/// The architecture of a guest's interrupt controllers, which decides which pins they have and which messages they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IrqArch {
    /// Local APICs, and an I/O APIC with 24 pins (82093AA).
    X86_64,
    /// A GIC with 224 shared peripheral interrupts, its pins, and an ITS.
    Arm64,
}

impl IrqArch {
    /// How many pins the interrupt controller has.
    #[expect(clippy::cast_possible_truncation, reason = "there are 24")]
    pub const fn pins(self) -> u8 {
        match self {
            Self::X86_64 => ioapic::PINS as u8,
            Self::Arm64 => 224,
        }
    }
}

/// Which interrupt controllers are below the VMM; this also decides what `hlt` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Irqchip {
    /// None: the guest has no interrupts, and `hlt` leaves the guest.
    #[default]
    None,
    /// Local APICs below the VMM; the I/O APIC and the PIC, if any, are devices of the VMM. This is not available on
    /// arm64.
    Split,
    /// Local APICs, I/O APIC, PIC and PIT below the VMM, as in a PC. The usermode backend has only local APICs and I/O
    /// APIC. On arm64 this is a GICv3 with its ITS, or a GICv2, depending on the host.
    Full,
}

/// The interrupt controllers of an arm64 guest (Arm IHI 0048 and IHI 0069).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gic {
    /// GICv2: a distributor and a CPU interface in memory. There are no message-signalled interrupts.
    V2,
    /// GICv3: a distributor, redistributors, a CPU interface in system registers, and an ITS for messages.
    V3,
}

impl Gic {
    /// The number of the version.
    pub const fn version(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

impl fmt::Display for Gic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GICv{}", self.version())
    }
}
