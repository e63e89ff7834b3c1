//! The versions of arm64's Generic Interrupt Controller that a guest may have.

use std::fmt;

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
