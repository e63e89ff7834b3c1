//! Why a device cannot be a function of the bus, and what failed while it was assigned.

use std::fmt;
use std::ops::Range;

use crate::error::PassthroughErrorKind;
use vmbell_devices::pci::{CapabilityError, MsixError};

/// Why a device cannot be assigned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// Configuration space cannot be read.
    #[error("cannot read configuration space")]
    Config(#[source] PassthroughErrorKind),
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

/// What failed with an assigned device, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}")]
pub struct AssignedError {
    /// What failed.
    pub attempt: Attempt,
    /// The error of the attempt.
    pub source: PassthroughErrorKind,
}

/// An operation on an assigned device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// Reading registers. The guest reads ones, as on a bus on which no device answers (PCI 3.0, 3.3.3.1).
    Read {
        /// Where the register is.
        space: Space,
        /// The offset of the registers there.
        offset: u64,
        /// The width of the access in bytes.
        len: usize,
    },
    /// Writing registers. The guest's write is lost, as on a bus on which no device answers.
    Write {
        /// Where the register is.
        space: Space,
        /// The offset of the registers there.
        offset: u64,
        /// The width of the access in bytes.
        len: usize,
    },
    /// Mapping a part of a BAR. The guest's accesses to it exit, and still reach the device.
    Map {
        /// The number of the BAR.
        bar: usize,
        /// The part.
        area: Range<u64>,
        /// The guest-physical address.
        address: u64,
    },
    /// Unmapping a part of a BAR: the guest may reach it where it should not.
    Unmap {
        /// The number of the BAR.
        bar: usize,
        /// The part.
        area: Range<u64>,
        /// The guest-physical address.
        address: u64,
    },
    /// Writing the device's command register.
    Command {
        /// The value.
        command: u16,
    },
    /// Changing the interrupts to what the guest has set up.
    Interrupts {
        /// The change, for example "MSI on".
        interrupts: &'static str,
    },
    /// Resetting the device.
    Reset,
}

impl Attempt {
    /// What is done, without the guest's values.
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
            Self::Interrupts { interrupts } => interrupts,
            Self::Reset => "reset",
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { space, offset, len } => write!(
                f,
                "read {len} bytes at {offset:#x} of {space}, and the guest reads ones"
            ),
            Self::Write { space, offset, len } => write!(
                f,
                "write {len} bytes at {offset:#x} of {space}, and the guest's write is lost"
            ),
            Self::Map { bar, area, address } => {
                let Range { start, end } = area;
                let len = end - start;
                write!(
                    f,
                    "map {len:#x} bytes at {start:#x} of BAR{bar} at {address:#x}"
                )
            }
            Self::Unmap { bar, area, address } => {
                let Range { start, end } = area;
                let len = end - start;
                write!(
                    f,
                    "unmap {len:#x} bytes at {start:#x} of BAR{bar} from {address:#x}"
                )
            }
            Self::Command { command } => {
                write!(f, "write {command:#06x} to the device's command register")
            }
            Self::Interrupts { interrupts } => write!(f, "turn {interrupts}"),
            Self::Reset => f.write_str("reset the device"),
        }
    }
}
