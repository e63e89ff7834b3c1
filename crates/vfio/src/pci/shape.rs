//! What the guest sees of a device: identity, BARs, interrupt pin and capabilities, from the bytes of the device's
//! configuration space. These may be anything: the device is checked before the guest sees it.

use super::areas::{self, Area};
use super::{AssignError, BarInfo, PciAccess, PciInfo};
use vmbell_devices::pci::{
    BARS, Bar, BarSpace, CAPABILITY_MSI, CAPABILITY_MSIX, CONFIG_SIZE, Capability, CapabilityList,
    Identity, MsiCapability, MsixCapability, Pin, Registers, find_capabilities,
};

const CLASS: usize = 0x0a;
const HEADER_TYPE: usize = 0x0e;
/// The bit of the header's type that says that the device has several functions.
const MULTIFUNCTION: u8 = 1 << 7;
const FIRST_BAR: usize = 0x10;
const PIN: usize = 0x3d;
/// The ID of the capability for power management (PCI Bus Power Management Interface 1.2, 3.2).
const CAPABILITY_POWER: u8 = 0x01;

/// What the guest sees of a device.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) identity: Identity,
    pub(super) bars: [Option<Bar>; BARS],
    pub(super) registers: Registers,
    pub(super) msi: Option<MsiCapability>,
    pub(super) msix: Option<MsixCapability>,
    /// The areas of each BAR that are mapped into the guest.
    pub(super) mapped: [Vec<Area>; BARS],
    /// The offset of the capability for power management.
    pub(super) power: Option<usize>,
}

impl Shape {
    /// Reads and checks the device.
    pub(super) fn read(info: &PciInfo, access: &dyn PciAccess) -> Result<Self, AssignError> {
        let mut config = [0; CONFIG_SIZE];
        access
            .read_config(0, &mut config)
            .map_err(|source| AssignError::Config { source })?;
        if word(&config, 0) == 0xffff {
            return Err(AssignError::Absent);
        }
        let kind = config[HEADER_TYPE] & !MULTIFUNCTION;
        if kind != 0 {
            return Err(AssignError::HeaderType { kind });
        }
        let pin = match config[PIN] {
            0 => None,
            pin => Some(Pin::new(pin).ok_or(AssignError::Pin { pin })?),
        };
        let bars = bars(&config, &info.bars)?;
        let found = find_capabilities(&config)?;
        let msi = MsiCapability::find(&config, &found);
        let msix = MsixCapability::find(&config, &found, &bars)?;
        check_vectors("MSI", msi.map(MsiCapability::vectors), info.msi)?;
        check_vectors("MSI-X", msix.map(MsixCapability::vectors), info.msix)?;
        let mut capabilities = CapabilityList::default();
        for found in &found {
            let shown = match found.id() {
                CAPABILITY_MSI => msi.map(MsiCapability::shown),
                CAPABILITY_MSIX => msix.map(MsixCapability::shown),
                _ => None,
            };
            let shown = shown.unwrap_or_else(|| header(found.id()));
            capabilities.add_at(found.at(), shown)?;
        }
        let power = found.iter().find(|found| found.id() == CAPABILITY_POWER);
        Ok(Self {
            identity: Identity {
                vendor: word(&config, 0),
                device: word(&config, 2),
                class: word(&config, CLASS),
            },
            bars,
            registers: Registers {
                pin: pin.filter(|_| info.intx),
                capabilities,
                own: true,
            },
            msi,
            msix,
            mapped: std::array::from_fn(|bar| mapped(&info.bars, &bars, msix, bar)),
            power: power.map(|power| power.at().into()),
        })
    }
}

/// A capability whose registers are the device's.
fn header(id: u8) -> Capability {
    Capability {
        id,
        registers: Vec::new(),
        writable: Vec::new(),
        own: 0,
    }
}

/// The BARs of the sizes that are known, of the kinds that their registers say.
fn bars(
    config: &[u8; CONFIG_SIZE],
    info: &[BarInfo; BARS],
) -> Result<[Option<Bar>; BARS], AssignError> {
    let mut bars = [None; BARS];
    for (index, info) in info.iter().enumerate().filter(|(_, info)| info.size != 0) {
        let at = FIRST_BAR + 4 * index;
        let low = config[at];
        let space = match low & 0b111 {
            0b000 => BarSpace::Memory32,
            0b100 => BarSpace::Memory64,
            // Bit 1 is reserved in a BAR of ports.
            low if low & 1 != 0 => BarSpace::Io,
            _ => {
                let register = u32::from(word(config, at)) | u32::from(word(config, at + 2)) << 16;
                return Err(AssignError::BarKind {
                    bar: index,
                    register,
                });
            }
        };
        bars[index] = Some(Bar {
            space,
            size: info.size,
            prefetchable: low & 0b1001 == 0b1000,
        });
    }
    Ok(bars)
}

/// The areas of a BAR that are mapped into the guest.
fn mapped(
    info: &[BarInfo; BARS],
    bars: &[Option<Bar>; BARS],
    msix: Option<MsixCapability>,
    bar: usize,
) -> Vec<Area> {
    let BarInfo { size, mappable } = &info[bar];
    let parts = msix.map(|msix| [msix.table(), msix.pending()]);
    let parts = parts.into_iter().flatten().filter(|part| part.bar == bar);
    let holes: Vec<_> = parts
        .map(|part| Area {
            offset: part.offset,
            len: part.len,
        })
        .collect();
    match bars[bar] {
        Some(there) if there.space != BarSpace::Io => areas::to_map(*size, mappable, &holes),
        _ => Vec::new(),
    }
}

fn check_vectors(kind: &'static str, has: Option<u16>, wired: u32) -> Result<(), AssignError> {
    match has {
        Some(has) if u32::from(has) > wired => Err(AssignError::Vectors { kind, has, wired }),
        _ => Ok(()),
    }
}

fn word(config: &[u8; CONFIG_SIZE], at: usize) -> u16 {
    u16::from_le_bytes([config[at], config[at + 1]])
}
