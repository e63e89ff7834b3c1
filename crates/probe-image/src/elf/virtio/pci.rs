//! The virtio-pci transport (virtio 1.2, 4.1), without its legacy interface.

use super::kind::Kind;
use super::queue::{Queue, SIZE};
use super::{
    ACKNOWLEDGE, DRIVER, DRIVER_OK, Device, EVENT_IDX, FEATURES_OK, Features, Interrupt, Line,
    Notify, NotifyPlace, RING_PACKED_HIGH, VERSION_1_HIGH,
};
use crate::acpi::madt::IoApic;
use crate::elf::apic::Pin;
use crate::elf::interrupt::ROW_VECTOR;
use crate::elf::memory::Registers;
use crate::elf::pci::Access;
use crate::elf::time::wait_until;
use crate::pci::{Config, Place};

const COMMON_LEN: u64 = 56;
const DEVICE_FEATURE_SELECT: u64 = 0;
const DEVICE_FEATURE: u64 = 4;
const DRIVER_FEATURE_SELECT: u64 = 8;
const DRIVER_FEATURE: u64 = 12;
const CONFIG_VECTOR: u64 = 16;
const STATUS: u64 = 20;
const QUEUE_SELECT: u64 = 22;
const QUEUE_SIZE: u64 = 24;
const QUEUE_VECTOR: u64 = 26;
const QUEUE_ENABLE: u64 = 28;
const QUEUE_NOTIFY_OFFSET: u64 = 30;
const QUEUE_ADDRESSES: [u64; 3] = [32, 40, 48];
const NO_VECTOR: u16 = 0xffff;

const COMMAND: u8 = 4;
const INTX_OFF: u16 = 1 << 10;
/// I/O space, memory space, bus master.
const COMMAND_ON: u16 = 7;

/// Maps a structure of the device in its BAR.
fn registers(config: &Config, place: Option<Place>, offset: u64, len: u64) -> Option<Registers> {
    let place = place?;
    let address = config
        .memory_bar(place.bar)?
        .checked_add(u64::from(place.offset))?
        .checked_add(offset)?;
    Registers::new(address, len)
}

/// The port of a structure of the device, if the structure is in ports.
fn port(config: &Config, place: Option<Place>, offset: u64) -> Option<u16> {
    let place = place?;
    let first = u64::from(config.port_bar(place.bar)?);
    let port = first + u64::from(place.offset) + offset;
    u16::try_from(port).ok()
}

/// Starts a device. It gets the features of `wanted` that it offers.
#[allow(
    clippy::too_many_arguments,
    reason = "the device's place, and what it gets"
)]
pub fn open(
    access: Access,
    function: u8,
    config: &Config,
    kind: Kind,
    queue: &'static Queue,
    io_apics: &[Option<IoApic>],
    cpu: u32,
    wanted: Features,
) -> Result<Device, &'static str> {
    let [command, ..] = [config.0[4], config.0[5]].map(u16::from);
    access.write16(function, COMMAND, (command | COMMAND_ON) & !INTX_OFF);
    let virtio = config.virtio();
    let common = registers(config, virtio.common, 0, COMMON_LEN)
        .ok_or("the device has no modern interface in a memory BAR")?;
    let status = |bits: u8| common.write8(STATUS, bits);
    status(0);
    if !wait_until(|| common.read8(STATUS) == 0) {
        return Err("the device does not come out of its reset");
    }
    status(ACKNOWLEDGE);
    status(ACKNOWLEDGE | DRIVER);
    let offered = |select| {
        common.write32(DEVICE_FEATURE_SELECT, select);
        common.read32(DEVICE_FEATURE)
    };
    let [low, high] = wanted.0;
    let (low, high) = (offered(0) & low, offered(1) & high);
    for (select, features) in [(0, low), (1, high | VERSION_1_HIGH)] {
        common.write32(DRIVER_FEATURE_SELECT, select);
        common.write32(DRIVER_FEATURE, features);
    }
    let done = ACKNOWLEDGE | DRIVER | FEATURES_OK;
    status(done);
    if common.read8(STATUS) & FEATURES_OK == 0 {
        return Err("the device refuses the driver's features");
    }
    kind.prepare(queue);
    let index = kind.queue_index();
    common.write16(QUEUE_SELECT, index);
    let most = common.read16(QUEUE_SIZE);
    if most < SIZE {
        return Err("the device's queue is shorter than 8");
    }
    common.write16(QUEUE_SIZE, SIZE);
    let interrupt = msix(access, function, config, common, cpu)
        .or_else(|| intx(config, io_apics, registers(config, virtio.isr, 0, 1)?));
    for (place, address) in QUEUE_ADDRESSES.into_iter().zip(queue.addresses()) {
        common.write32(place, (address & 0xffff_ffff) as u32);
        common.write32(place + 4, (address >> 32) as u32);
    }
    let offset = u64::from(common.read16(QUEUE_NOTIFY_OFFSET)) * u64::from(virtio.multiplier);
    let notify = port(config, virtio.notify, offset)
        .map(NotifyPlace::PciPort)
        .or_else(|| registers(config, virtio.notify, offset, 2).map(NotifyPlace::Pci))
        .ok_or("the device's place for notifications cannot be mapped")?;
    common.write16(QUEUE_ENABLE, 1);
    status(done | DRIVER_OK);
    Device {
        kind,
        found_by: access.name(),
        interrupt,
        notify: Notify {
            place: notify,
            queue: index,
        },
        status: registers(config, virtio.common, STATUS, 1)
            .ok_or("the device's status cannot be mapped")?,
        queue,
        event_idx: low & EVENT_IDX != 0,
        packed: high & RING_PACKED_HIGH != 0,
        sum: 0,
    }
    .tried()
}

/// Sends the queue's interrupt as a message: vector 0 of the table, unmasked.
fn msix(
    access: Access,
    function: u8,
    config: &Config,
    common: Registers,
    cpu: u32,
) -> Option<Interrupt> {
    const ENABLE: u16 = 1 << 15;
    const MASK_ALL: u16 = 1 << 14;
    const DOORBELL: u32 = 0xfee0_0000;
    let msix = config.msix()?;
    let table = registers(config, Some(msix.table), 0, 16)?;
    let control = u16::from(config.0[usize::from(msix.capability) + 2])
        | u16::from(config.0[usize::from(msix.capability) + 3]) << 8;
    access.write16(
        function,
        msix.capability + 2,
        (control | ENABLE) & !MASK_ALL,
    );
    table.write32(0, DOORBELL | cpu << 12);
    table.write32(4, 0);
    table.write32(8, u32::from(ROW_VECTOR));
    table.write32(12, 0);
    common.write16(CONFIG_VECTOR, NO_VECTOR);
    common.write16(QUEUE_VECTOR, 0);
    let mask = registers(config, Some(msix.table), 12, 4)?;
    (common.read16(QUEUE_VECTOR) == 0).then_some(Interrupt::Msix(mask))
}

/// Returns the line that firmware has written into the configuration space.
fn intx(config: &Config, io_apics: &[Option<IoApic>], status: Registers) -> Option<Interrupt> {
    let gsi = u32::from(config.interrupt_line()?);
    let pin = Pin::new(io_apics, gsi, true)?;
    Some(Interrupt::Intx(Line { pin, gsi, status }))
}
