//! The buses whose devices VFIO can assign, and how sysfs names them and their devices.
//!
//! The address of a PCI function is `DOMAIN:BUS:DEVICE.FUNCTION` in hexadecimal, as sysfs and lspci write it. Nothing
//! here reads files; any thread may use it.

use std::fmt;
use std::str::FromStr;

/// A bus of the host's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bus {
    /// PCI and PCI Express.
    Pci,
    /// Devices that the firmware describes, in a device tree or in ACPI.
    Platform,
    /// Arm's PrimeCells, which a device tree describes.
    Amba,
}

impl Bus {
    /// Every bus.
    pub const ALL: [Self; 3] = [Self::Pci, Self::Platform, Self::Amba];

    /// The folder's name in `/sys/bus`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Platform => "platform",
            Self::Amba => "amba",
        }
    }

    /// The driver that hands out a device of this bus; its module has the same name.
    pub const fn vfio_driver(self) -> &'static str {
        match self {
            Self::Pci => "vfio-pci",
            Self::Platform => "vfio-platform",
            Self::Amba => "vfio-amba",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bus| bus.name() == name)
    }
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a driver hands its devices to user space: `vfio-pci`, or a variant such as `mlx5_vfio_pci`.
pub(super) fn is_vfio(driver: &str) -> bool {
    driver.contains("vfio")
}

/// The address of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// The domain; Intel's volume managers have numbers above 16 bits.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device, below 32.
    pub device: u8,
    /// The function, below 8.
    pub function: u8,
}

/// The text is not the address of a PCI function.
#[derive(Debug, thiserror::Error)]
#[error("'{text}' is not the address of a pci function, such as 0000:00:03.0 or 00:03.0")]
pub struct PciAddressError {
    /// The text.
    pub text: String,
}

fn hex_number(text: &str, digits: usize) -> Option<u32> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = (1..=digits).contains(&text.len());
    (is_hex && fits)
        .then(|| u32::from_str_radix(text, 16).ok())
        .flatten()
}

fn parse_address(text: &str) -> Option<PciAddress> {
    let (place, function) = text.rsplit_once('.')?;
    let (place, device) = place.rsplit_once(':')?;
    let (domain, bus) = place.rsplit_once(':').unwrap_or(("0", place));
    let below = |text: &str, digits, limit| {
        let number = u8::try_from(hex_number(text, digits)?).ok()?;
        (number < limit).then_some(number)
    };
    Some(PciAddress {
        domain: hex_number(domain, 8)?,
        bus: u8::try_from(hex_number(bus, 2)?).ok()?,
        device: below(device, 2, 32)?,
        function: below(function, 1, 8)?,
    })
}

impl FromStr for PciAddress {
    type Err = PciAddressError;

    /// Reads an address, in which the domain may be left out if it is 0.
    fn from_str(text: &str) -> Result<Self, PciAddressError> {
        parse_address(text).ok_or_else(|| PciAddressError {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for PciAddress {
    /// Writes the device's name in sysfs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}
