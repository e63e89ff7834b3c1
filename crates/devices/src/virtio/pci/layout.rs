//! Where the structures of the device are: in the BAR, each in a page of its own, and as capabilities in configuration
//! space, which say so to the driver (virtio 1.3, 4.1.4).

use crate::pci::{BARS, Bar, BarSpace, Capability, MsixCapability};

/// The BAR, and its size in bytes.
pub(super) const BAR: u8 = 0;
const SIZE: u64 = 0x8000;

/// Bytes of the common configuration up to `queue_device`; what is behind them belongs to features that are not offered.
const COMMON_LEN: u32 = 56;
/// The distance of the notification addresses of two queues, by which `queue_notify_off` is multiplied.
const MULTIPLIER: u32 = 4;

/// Offsets in the BAR.
const COMMON: u32 = 0x0000;
const ISR: u32 = 0x1000;
const CONFIG: u32 = 0x2000;
const NOTIFY: u32 = 0x3000;
const TABLE: u32 = 0x4000;
const PENDING: u32 = 0x5000;
const PAGE: u32 = 0x1000;

/// The ID of a vendor's capability, and virtio's types of it (virtio 1.3, 4.1.4).
const CAPABILITY_VENDOR: u8 = 0x09;
const TYPE_COMMON: u8 = 1;
const TYPE_NOTIFY: u8 = 2;
const TYPE_ISR: u8 = 3;
const TYPE_CONFIG: u8 = 4;
const TYPE_WINDOW: u8 = 5;

/// Offsets in configuration space.
const COMMON_CAPABILITY: u8 = 0x40;
const NOTIFY_CAPABILITY: u8 = 0x50;
const ISR_CAPABILITY: u8 = 0x64;
const CONFIG_CAPABILITY: u8 = 0x74;
pub(super) const WINDOW_CAPABILITY: u8 = 0x84;
const MSIX_CAPABILITY: u8 = 0x98;
/// Bytes of a capability without what only some types have.
const CAPABILITY_LEN: u8 = 16;
/// Offset of `pci_cfg_data`, four bytes.
pub(super) const WINDOW_DATA: usize = WINDOW_CAPABILITY as usize + CAPABILITY_LEN as usize;

/// A structure in the BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The common configuration.
    Common,
    /// The interrupt status.
    Isr,
    /// The configuration that only this type of device has.
    Config,
    /// Notifications.
    Notify,
    /// The messages of MSI-X.
    Table,
    /// The pending bits of MSI-X.
    Pending,
}

/// The structure at an offset of the BAR, and the offset in it.
pub(super) fn part(offset: u64) -> Option<(Part, u64)> {
    let offset = u32::try_from(offset).ok()?;
    let part = match offset & !(PAGE - 1) {
        COMMON => Part::Common,
        ISR => Part::Isr,
        CONFIG => Part::Config,
        NOTIFY => Part::Notify,
        TABLE => Part::Table,
        PENDING => Part::Pending,
        _ => return None,
    };
    Some((part, (offset % PAGE).into()))
}

/// The offset in the BAR at which a queue is notified.
pub(super) fn notify_offset(queue: u16) -> u64 {
    u64::from(NOTIFY) + u64::from(MULTIPLIER) * u64::from(queue)
}

/// The queue that a write at this offset of the notifications means.
pub(super) fn notified(offset: u64) -> Option<u16> {
    let multiplier = u64::from(MULTIPLIER);
    let aligned = offset.is_multiple_of(multiplier);
    u16::try_from(offset / multiplier).ok().filter(|_| aligned)
}

/// The BARs: memory below 4 GiB, which every guest can reach.
pub(super) fn bars() -> [Option<Bar>; BARS] {
    let mut bars = [None; BARS];
    bars[usize::from(BAR)] = Some(Bar {
        space: BarSpace::Memory32,
        size: SIZE,
        prefetchable: false,
    });
    bars
}

/// The capabilities of a device with so many queues, and bytes of configuration of its own.
pub(super) fn capabilities(queues: u16, config: u32, msix: MsixCapability) -> Vec<Capability> {
    let notify = u32::from(queues) * MULTIPLIER;
    let mut capabilities = vec![
        structure(COMMON_CAPABILITY, TYPE_COMMON, COMMON, COMMON_LEN),
        with_multiplier(structure(NOTIFY_CAPABILITY, TYPE_NOTIFY, NOTIFY, notify)),
        structure(ISR_CAPABILITY, TYPE_ISR, ISR, 1),
    ];
    if config > 0 {
        capabilities.push(structure(CONFIG_CAPABILITY, TYPE_CONFIG, CONFIG, config));
    }
    capabilities.push(window());
    capabilities.push(msix.shown());
    capabilities
}

/// MSI-X with so many vectors.
pub(super) fn msix(vectors: u16) -> MsixCapability {
    MsixCapability::new(MSIX_CAPABILITY, vectors, (BAR, TABLE), (BAR, PENDING))
}

/// `struct virtio_pci_cap`, from its length on.
fn structure(at: u8, kind: u8, offset: u32, len: u32) -> Capability {
    let mut registers = vec![CAPABILITY_LEN, kind, BAR, 0, 0, 0];
    registers.extend(offset.to_le_bytes());
    registers.extend(len.to_le_bytes());
    Capability {
        at,
        id: CAPABILITY_VENDOR,
        writable: vec![0; registers.len()],
        registers,
    }
}

/// `struct virtio_pci_notify_cap`.
fn with_multiplier(mut capability: Capability) -> Capability {
    capability.registers[0] += 4;
    capability.registers.extend(MULTIPLIER.to_le_bytes());
    capability.writable.extend([0; 4]);
    capability
}

/// `struct virtio_pci_cfg_cap`, whose data the function answers for.
fn window() -> Capability {
    let mut capability = structure(WINDOW_CAPABILITY, TYPE_WINDOW, 0, 0);
    capability.registers[0] += 4;
    // The driver chooses the BAR, the offset and the length.
    capability.writable[2] = 0xff;
    capability.writable[6..].fill(0xff);
    capability
}
