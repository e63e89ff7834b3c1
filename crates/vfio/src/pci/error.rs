//! Why a device cannot be a function of the bus, and what failed while it was one.

use std::fmt;

use super::Area;
use vmbell_devices::pci::{CapabilityError, MsixError};

/// The error of a trait's implementation.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Why a device cannot be assigned.
#[derive(Debug, thiserror::Error)]
pub enum AssignError {
    /// Configuration space cannot be read.
    #[error("cannot read configuration space")]
    Config {
        /// The error of the access.
        source: Failure,
    },
    /// Configuration space reads as ones.
    #[error("the device does not answer: its vendor reads as 0xffff")]
    Absent,
    /// The device is a bridge.
    #[error("the device has a header of type {kind}, only type 0 can be assigned")]
    HeaderType {
        /// The type: 1 for a PCI bridge, 2 for a CardBus bridge.
        kind: u8,
    },
    /// The interrupt pin is not one of INTA to INTD.
    #[error("interrupt pin {pin} is not 1 (INTA) to 4 (INTD)")]
    Pin {
        /// The register.
        pin: u8,
    },
    /// The low bits of a BAR have a reserved value.
    #[error("BAR{bar} reads as {register:#x}, which is not a kind of BAR")]
    BarKind {
        /// The number of the BAR.
        bar: usize,
        /// The register.
        register: u32,
    },
    /// Fewer vectors can be wired than the guest would see.
    #[error("the device has {has} vectors of {kind}, and {wired} can be wired")]
    Vectors {
        /// MSI or MSI-X.
        kind: &'static str,
        /// How many there are in the capability.
        has: u16,
        /// How many can be wired.
        wired: u32,
    },
    /// The list of capabilities is broken.
    #[error(transparent)]
    Capabilities(#[from] CapabilityError),
    /// The MSI-X capability is broken.
    #[error(transparent)]
    Msix(#[from] MsixError),
}

/// Where a register of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In configuration space.
    Config,
    /// In the BAR of this number.
    Bar(usize),
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("configuration space"),
            Self::Bar(bar) => write!(f, "BAR{bar}"),
        }
    }
}

/// What failed of a device that is assigned.
#[derive(Debug, thiserror::Error)]
pub enum AssignedError {
    /// A register could not be read. The guest reads ones, as on a bus on which no device answers (PCI 3.0, 3.3.3.1).
    #[error("cannot read {len} bytes at {offset:#x} of {space}, and the guest reads ones")]
    Read {
        /// Where the register is.
        space: Space,
        /// Its offset there.
        offset: u64,
        /// The width of the access in bytes.
        len: usize,
        /// The error of the access.
        source: Failure,
    },
    /// A register could not be written. The guest's write is lost, as on a bus on which no device answers.
    #[error("cannot write {len} bytes at {offset:#x} of {space}, and the guest's write is lost")]
    Write {
        /// Where the register is.
        space: Space,
        /// Its offset there.
        offset: u64,
        /// The width of the access in bytes.
        len: usize,
        /// The error of the access.
        source: Failure,
    },
    /// A part of a BAR could not be mapped. The guest's accesses to it exit, and reach the device nevertheless.
    #[error("cannot map {area} of BAR{bar} at {address:#x}")]
    Map {
        /// The number of the BAR.
        bar: usize,
        /// The part.
        area: Area,
        /// The guest-physical address.
        address: u64,
        /// The error of the mapping.
        source: Failure,
    },
    /// A part of a BAR could not be unmapped, so the guest may reach it where it should not.
    #[error("cannot unmap {area} of BAR{bar} from {address:#x}")]
    Unmap {
        /// The number of the BAR.
        bar: usize,
        /// The part.
        area: Area,
        /// The guest-physical address.
        address: u64,
        /// The error of the mapping.
        source: Failure,
    },
    /// The device's command register could not be written.
    #[error("cannot write {command:#06x} to the device's command register")]
    Command {
        /// The value.
        command: u16,
        /// The error of the access.
        source: Failure,
    },
    /// The interrupts could not be changed to what the guest has set up.
    #[error("cannot turn {interrupts}")]
    Interrupts {
        /// What of them: "MSI on", for example.
        interrupts: &'static str,
        /// The error of the wiring.
        source: Failure,
    },
    /// Whether a vector is pending could not be found out. The guest reads that it is, and finds at worst no reason for the
    /// interrupt.
    #[error("cannot find out whether vector {vector} is pending, and the guest reads that it is")]
    Pending {
        /// The vector.
        vector: u16,
        /// The error of the wiring.
        source: Failure,
    },
    /// The device could not be reset.
    #[error("cannot reset the device")]
    Reset {
        /// The error of the reset.
        source: Failure,
    },
}

impl AssignedError {
    /// What failed, without the guest's values.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Read { space, .. } => match space {
                Space::Config => "read of configuration space",
                Space::Bar(_) => "read of a BAR",
            },
            Self::Write { space, .. } => match space {
                Space::Config => "write of configuration space",
                Space::Bar(_) => "write of a BAR",
            },
            Self::Map { .. } => "map",
            Self::Unmap { .. } => "unmap",
            Self::Command { .. } => "command",
            Self::Interrupts { interrupts, .. } => interrupts,
            Self::Pending { .. } => "pending",
            Self::Reset { .. } => "reset",
        }
    }
}
