//! What a function adds to a plain header of configuration space: an interrupt pin, capabilities, and registers of its
//! own.

use super::CapabilityList;

/// An interrupt pin (PCI 3.0, 2.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// INTA#.
    A = 1,
    /// INTB#.
    B,
    /// INTC#.
    C,
    /// INTD#.
    D,
}

impl Pin {
    /// The pin that a value of the interrupt pin register means; `None` if it is not 1 to 4.
    pub const fn new(register: u8) -> Option<Self> {
        match register {
            1 => Some(Self::A),
            2 => Some(Self::B),
            3 => Some(Self::C),
            4 => Some(Self::D),
            _ => None,
        }
    }

    /// The value of the interrupt pin register.
    pub const fn register(self) -> u8 {
        self as u8
    }
}

/// What a function adds to its header; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// The interrupt pin.
    pub pin: Option<Pin>,
    /// The capabilities.
    pub capabilities: CapabilityList,
    /// Whether the function itself answers for the registers that are not emulated, by
    /// [`read_config`](super::PciFunction::read_config) and [`write_config`](super::PciFunction::write_config).
    /// Emulated are the vendor, device and command registers, the header's type, the BARs, the expansion ROM (there is
    /// none), the interrupt line and pin, and of capabilities the header and the registers that they have here.
    pub own: bool,
}
