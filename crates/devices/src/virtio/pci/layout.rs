//! Where the structures of the device are: in a BAR in memory, each in its own page. Capabilities in configuration
//! space tell the driver their places (virtio 1.3, 4.1.4). A second BAR may have the notifications at I/O ports. Its
//! capability comes first, since a driver should use the first one that it can.
//!
//! Drivers that cannot reach a BAR access it through configuration space (4.1.4.9): they choose an address, and reads
//! and writes of `pci_cfg_data` go there. Runs on the thread of the vCPU that makes the access.

use vmbell::doorbell::IoEventAddress;

use crate::pci::{
    BARS, Bar, BarSpace, Capability, CapabilityError, CapabilityList, ConfigSpace, MsixCapability,
};

/// The BAR in memory, and its size in bytes.
const BAR: u8 = 0;
const SIZE: u64 = 0x8000;
/// The BAR with the notifications at ports.
const PORTS: u8 = 1;

/// Bytes of the common configuration up to `queue_device`; the fields after it belong to features that are not offered.
const COMMON_LEN: u32 = 56;
/// The distance between the notification addresses of two queues, by which `queue_notify_off` is multiplied.
const MULTIPLIER: u32 = 4;

/// Offsets in the BAR in memory.
const COMMON: u32 = 0x0000;
const ISR: u32 = 0x1000;
const CONFIG: u32 = 0x2000;
const NOTIFY: u32 = 0x3000;
const TABLE: u32 = 0x4000;
const PENDING: u32 = 0x5000;
const PAGE: u32 = 0x1000;

/// The ID of a vendor-specific capability, and virtio's types of it (virtio 1.3, 4.1.4).
const CAPABILITY_VENDOR: u8 = 0x09;
const TYPE_COMMON: u8 = 1;
const TYPE_NOTIFY: u8 = 2;
const TYPE_ISR: u8 = 3;
const TYPE_CONFIG: u8 = 4;
const TYPE_WINDOW: u8 = 5;

/// Bytes of a capability without the fields that only some types have.
const CAPABILITY_LEN: u8 = 16;

/// The contents of a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// All structures.
    Memory,
    /// Notifications at ports.
    Ports,
}

/// What the BAR with this number contains; a device may have no BAR at ports.
pub(super) fn space(bar: usize, has_ports: bool) -> Option<Space> {
    match u8::try_from(bar).ok()? {
        BAR => Some(Space::Memory),
        PORTS if has_ports => Some(Space::Ports),
        _ => None,
    }
}

/// A structure in a BAR.
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

/// The structure at an offset of a BAR, and the offset in the structure.
pub(super) fn part(space: Space, offset: u64) -> Option<(Part, u64)> {
    if space == Space::Ports {
        return Some((Part::Notify, offset));
    }
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

/// The address at which a queue is notified, if the BAR is at `base`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a BAR of ports ends at 0xffff"
)]
pub(super) fn notify_address(space: Space, base: u64, queue: u16) -> IoEventAddress {
    let at = u64::from(MULTIPLIER) * u64::from(queue);
    match space {
        Space::Memory => IoEventAddress::Mmio(base + u64::from(NOTIFY) + at),
        Space::Ports => IoEventAddress::Pio((base + at) as u16),
    }
}

/// The queue that a write at this offset of the notifications notifies.
pub(super) fn notified(offset: u64) -> Option<u16> {
    let multiplier = u64::from(MULTIPLIER);
    let aligned = offset.is_multiple_of(multiplier);
    u16::try_from(offset / multiplier).ok().filter(|_| aligned)
}

/// The BARs: memory below 4 GiB, which every guest can reach, and, with `has_ports`, ports for the notifications.
pub(super) fn bars(queues: u16, has_ports: bool) -> [Option<Bar>; BARS] {
    let bar = |space, size| Bar {
        space,
        size,
        prefetchable: false,
    };
    let mut bars = [None; BARS];
    bars[usize::from(BAR)] = Some(bar(BarSpace::Memory32, SIZE));
    if has_ports {
        let size = u64::from(notify_len(queues)).next_power_of_two();
        bars[usize::from(PORTS)] = Some(bar(BarSpace::Io, size));
    }
    bars
}

/// The length of the notification area in bytes.
fn notify_len(queues: u16) -> u32 {
    u32::from(queues) * MULTIPLIER
}

/// The capabilities that the function shows in configuration space.
#[derive(Debug)]
pub(super) struct Capabilities {
    pub(super) list: CapabilityList,
    pub(super) msix: MsixCapability,
    /// Offset of the capability of the [`Window`].
    pub(super) window: u8,
}

impl Capabilities {
    /// Creates the capabilities of a device with this number of queues and bytes of configuration. It has a vector of
    /// MSI-X for each queue and one for configuration changes, and may have notifications at ports.
    pub(super) fn new(
        queues: u16,
        config: usize,
        has_ports: bool,
    ) -> Result<Self, CapabilityError> {
        let mut list = CapabilityList::default();
        let notify =
            |bar, offset| with_multiplier(structure(TYPE_NOTIFY, bar, offset, notify_len(queues)));
        list.add(structure(TYPE_COMMON, BAR, COMMON, COMMON_LEN))?;
        if has_ports {
            list.add(notify(PORTS, 0))?;
        }
        list.add(notify(BAR, NOTIFY))?;
        list.add(structure(TYPE_ISR, BAR, ISR, 1))?;
        if config > 0 {
            let config = u32::try_from(config).unwrap_or(u32::MAX);
            list.add(structure(TYPE_CONFIG, BAR, CONFIG, config))?;
        }
        let window = list.add(window())?;
        let msix = MsixCapability::add(&mut list, queues + 1, (BAR, TABLE), (BAR, PENDING))?;
        Ok(Self { list, msix, window })
    }
}

/// `struct virtio_pci_cap` from its field `cap_len` on.
fn structure(kind: u8, bar: u8, offset: u32, len: u32) -> Capability {
    let mut registers = vec![CAPABILITY_LEN, kind, bar, 0, 0, 0];
    registers.extend(offset.to_le_bytes());
    registers.extend(len.to_le_bytes());
    Capability {
        id: CAPABILITY_VENDOR,
        registers,
        writable: Vec::new(),
        own: 0,
    }
}

/// `struct virtio_pci_notify_cap`.
fn with_multiplier(mut capability: Capability) -> Capability {
    capability.registers[0] += 4;
    capability.registers.extend(MULTIPLIER.to_le_bytes());
    capability
}

/// `struct virtio_pci_cfg_cap`, whose data the function answers for.
fn window() -> Capability {
    let mut capability = structure(TYPE_WINDOW, 0, 0, 0);
    capability.registers[0] += 4;
    // The driver chooses the BAR, the offset and the length.
    capability.writable = vec![0, 0, 0xff, 0, 0, 0];
    capability.writable.extend([0xff; 8]);
    capability.own = 4;
    capability
}

/// The address that the driver has chosen; no address at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Offset of `pci_cfg_data`, four bytes of configuration space.
    data: usize,
    bar: u8,
    offset: u32,
    len: u32,
}

impl Window {
    /// Reads the chosen place from the registers of the capability at `at` in configuration space.
    pub(super) fn new(at: u8, config: &ConfigSpace) -> Self {
        let at = usize::from(at);
        let [bar, ..] = config.word(at + 4).to_le_bytes();
        Self {
            data: at + usize::from(CAPABILITY_LEN),
            bar,
            offset: config.dword(at + 8),
            len: config.dword(at + 12),
        }
    }

    /// Whether an access to the data may go to the BAR.
    pub(super) fn is_open(self) -> bool {
        self.len != 0
    }

    /// Returns the BAR and the offset in it to which an access to these bytes of configuration space goes, and how many
    /// bytes go there. `None` if the access does not begin at the data or is shorter than the driver's choice, or the
    /// driver has chosen no access.
    pub(super) fn target(self, offset: usize, len: usize) -> Option<(u8, u64, usize)> {
        let chosen = usize::try_from(self.len).ok()?;
        let sound = matches!(chosen, 1 | 2 | 4)
            && self.offset.is_multiple_of(self.len)
            && offset == self.data
            && len >= chosen;
        sound.then_some((self.bar, self.offset.into(), chosen))
    }
}
