//! What a device is, in the words of its bus.

use std::fmt;
use std::path::Path;

use super::bus::Bus;
use super::files;

/// What the bus knows a device by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A PCI function. What the host does not say is all ones.
    Pci {
        /// The vendor.
        vendor: u16,
        /// The vendor's number of the device.
        device: u16,
        /// Class, subclass and programming interface: 24 bits.
        class: u32,
    },
    /// A device that the firmware describes.
    Described {
        /// `compatible` of its device-tree node, the most special first; empty without a node.
        compatible: Vec<String>,
        /// What the kernel looks its driver's module up by.
        modalias: Option<String>,
    },
}

impl Identity {
    pub(super) fn read(bus: Bus, device: &Path) -> Self {
        let number = |name| files::hex(&device.join(name));
        let word = |name| {
            number(name)
                .and_then(|number| u16::try_from(number).ok())
                .unwrap_or(u16::MAX)
        };
        match bus {
            Bus::Pci => Self::Pci {
                vendor: word("vendor"),
                device: word("device"),
                class: number("class").unwrap_or(u32::MAX) & 0xff_ffff,
            },
            Bus::Platform | Bus::Amba => Self::Described {
                compatible: files::texts(&device.join("of_node/compatible")),
                modalias: files::text(&device.join("modalias")),
            },
        }
    }
}

impl fmt::Display for Identity {
    /// `8086:10d3 class 020000`, or the first name of `compatible`, or the modalias.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci {
                vendor,
                device,
                class,
            } => f.pad(&format!("{vendor:04x}:{device:04x} class {class:06x}")),
            Self::Described {
                compatible,
                modalias,
            } => {
                let name = compatible.first().or(modalias.as_ref());
                f.pad(name.map_or("unknown", String::as_str))
            }
        }
    }
}
