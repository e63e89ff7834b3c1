//! What the guest sees of a device: identity, BARs, interrupt pin and capabilities, from the bytes of the device's
//! configuration space. These bytes may be anything: the device is checked before the guest sees it.

use std::ops::Range;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};

use super::error::AssignError;
use crate::device::Device;
use crate::region::Region;
use vmbell_devices::pci::{
    BARS, Bar, BarPart, BarSpace, CAPABILITY_MSI, CAPABILITY_MSIX, CONFIG_SIZE, Capability,
    CapabilityList, Identity, MsiCapability, MsixCapability, Pin, Registers, find_capabilities,
};

const CLASS: usize = 0x0a;
const HEADER_TYPE: usize = 0x0e;
/// The bit of the header's type that says that the device has several functions.
const MULTIFUNCTION: u8 = 1 << 7;
const FIRST_BAR: usize = 0x10;
const PIN: usize = 0x3d;
const PAGE: u64 = 4096;
/// The ID of the capability for power management (PCI Bus Power Management Interface 1.2, 3.2).
const CAPABILITY_POWER: u8 = 0x01;

/// How an access overlaps a part of a BAR.
pub(super) enum Meeting {
    /// The access and the part do not overlap.
    Apart,
    /// The access is inside the part, at this offset.
    Inside(u64),
    /// A part of the access is outside.
    Across,
}

/// What the guest sees of a device.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) identity: Identity,
    pub(super) bars: [Option<Bar>; BARS],
    pub(super) registers: Registers,
    pub(super) msi: Option<MsiCapability>,
    pub(super) msix: Option<MsixCapability>,
    /// The areas of each BAR that are mapped into the guest.
    pub(super) mapped: [Vec<Range<u64>>; BARS],
    /// The offset of the capability for power management.
    pub(super) power: Option<usize>,
}

impl Shape {
    /// Reads and checks the device.
    pub(super) fn read(device: &Device) -> Result<Self, AssignError> {
        let mut config = [0; CONFIG_SIZE];
        device
            .read(VFIO_PCI_CONFIG_REGION_INDEX, 0, &mut config)
            .map_err(|error| AssignError::Config(error.kind))?;
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
        let bars = bars(&config, device.regions())?;
        let found = find_capabilities(&config)?;
        let msi = MsiCapability::find(&config, &found);
        let msix = MsixCapability::find(&config, &found, &bars)?;
        let wired = |index| device.irq(index).map_or(0, |irq| irq.count);
        let [has_msi, has_msix] = [
            msi.map(MsiCapability::vectors),
            msix.map(MsixCapability::vectors),
        ];
        check_vectors("MSI", has_msi, wired(VFIO_PCI_MSI_IRQ_INDEX))?;
        check_vectors("MSI-X", has_msix, wired(VFIO_PCI_MSIX_IRQ_INDEX))?;
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
                pin: pin.filter(|_| wired(VFIO_PCI_INTX_IRQ_INDEX) > 0),
                capabilities,
                own: true,
            },
            msi,
            msix,
            mapped: std::array::from_fn(|bar| mapped(device.regions(), &bars, msix, bar)),
            power: power.map(|power| power.at().into()),
        })
    }

    /// Returns how an access overlaps the table of MSI-X, and its pending bits.
    pub(super) fn meet(&self, bar: usize, offset: u64, len: usize) -> [Meeting; 2] {
        let parts = self.msix.map(|msix| [msix.table(), msix.pending()]);
        parts.map_or([Meeting::Apart, Meeting::Apart], |parts| {
            parts.map(|part| meet(part, bar, offset, len))
        })
    }

    /// Whether a configuration-space access touches MSI's pending bits. The access must lie within one dword.
    pub(super) fn is_msi_pending(&self, offset: usize) -> bool {
        let pending = self.msi.and_then(|msi| msi.pending());
        pending.is_some_and(|pending| pending == offset & !3)
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

/// Returns the BARs, with their sizes from `regions` and their kinds from the registers.
fn bars(
    config: &[u8; CONFIG_SIZE],
    regions: &[Region],
) -> Result<[Option<Bar>; BARS], AssignError> {
    let mut bars = [None; BARS];
    let regions = regions.iter().take(BARS).enumerate();
    for (index, region) in regions.filter(|(_, region)| region.size != 0) {
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
            size: region.size,
            prefetchable: low & 0b1001 == 0b1000,
        });
    }
    Ok(bars)
}

/// Returns the areas of each BAR that are mapped into the guest.
fn mapped(
    regions: &[Region],
    bars: &[Option<Bar>; BARS],
    msix: Option<MsixCapability>,
    bar: usize,
) -> Vec<Range<u64>> {
    let parts = msix.map(|msix| [msix.table(), msix.pending()]);
    let parts = parts.into_iter().flatten().filter(|part| part.bar == bar);
    let holes: Vec<_> = parts
        .map(|part| part.offset..part.offset + part.len)
        .collect();
    match bars[bar] {
        Some(there) if there.space != BarSpace::Io => to_map(&regions[bar].areas, &holes),
        _ => Vec::new(),
    }
}

/// Returns which parts of a BAR to map: `areas`, which the host can map, without the pages that overlap `holes`.
fn to_map(areas: &[Range<u64>], holes: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = areas.to_vec();
    for hole in holes {
        let from = hole.start & !(PAGE - 1);
        let to = hole.end.checked_next_multiple_of(PAGE);
        let to = to.unwrap_or(u64::MAX);
        left = left
            .into_iter()
            .flat_map(|area| [area.start..area.end.min(from), area.start.max(to)..area.end])
            .filter(|area| !area.is_empty())
            .collect();
    }
    left
}

fn meet(part: BarPart, bar: usize, offset: u64, len: usize) -> Meeting {
    let end = offset.saturating_add(len as u64);
    let part_end = part.offset + part.len;
    if part.bar != bar || end <= part.offset || part_end <= offset {
        Meeting::Apart
    } else if part.offset <= offset && end <= part_end {
        Meeting::Inside(offset - part.offset)
    } else {
        Meeting::Across
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

#[cfg(test)]
#[path = "shape_test.rs"]
mod tests;
