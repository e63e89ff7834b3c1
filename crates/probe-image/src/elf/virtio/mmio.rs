//! The virtio-mmio transport (virtio 1.2, 4.2): version 2, and version 1, which is QEMU's default (4.2.4).

use super::kind::Kind;
use super::queue::{Queue, SIZE};
use super::{
    ACKNOWLEDGE, DRIVER, DRIVER_OK, Device, EVENT_IDX, FEATURES_OK, Features, Interrupt, Line,
    Notify, NotifyPlace, RING_PACKED_HIGH, VERSION_1_HIGH,
};
use crate::elf::apic::Pin;
use crate::elf::memory::Registers;

pub const LEN: u64 = 0x100;
const MAGIC: u64 = 0;
const VERSION: u64 = 4;
const DEVICE_TYPE: u64 = 8;
const DEVICE_FEATURES: u64 = 0x10;
const DEVICE_FEATURES_SELECT: u64 = 0x14;
const DRIVER_FEATURES: u64 = 0x20;
const DRIVER_FEATURES_SELECT: u64 = 0x24;
const GUEST_PAGE_SIZE: u64 = 0x28;
const QUEUE_SELECT: u64 = 0x30;
const QUEUE_SIZE_MAX: u64 = 0x34;
const QUEUE_SIZE: u64 = 0x38;
const QUEUE_ALIGN: u64 = 0x3c;
const QUEUE_PAGE: u64 = 0x40;
const QUEUE_READY: u64 = 0x44;
const QUEUE_NOTIFY: u64 = 0x50;
const INTERRUPT_STATUS: u64 = 0x60;
const STATUS: u64 = 0x70;
const QUEUE_ADDRESSES: [u64; 3] = [0x80, 0x90, 0xa0];

/// Returns the kind of the device at an address, if there is one. QEMU has many slots without a device.
pub fn kind(address: u64) -> Option<(Registers, Kind)> {
    let registers = Registers::new(address, LEN)?;
    if registers.read32(MAGIC) != u32::from_le_bytes(*b"virt") {
        return None;
    }
    Some((
        registers,
        Kind::from_device_type(registers.read32(DEVICE_TYPE))?,
    ))
}

/// Starts a device. It gets the features of `wanted` that it offers.
pub fn open(
    registers: Registers,
    kind: Kind,
    queue: &'static Queue,
    found_by: &'static str,
    pin: Option<(u32, Pin)>,
    wanted: Features,
) -> Result<Device, &'static str> {
    let status = |bits: u8| registers.write32(STATUS, u32::from(bits));
    status(0);
    status(ACKNOWLEDGE);
    status(ACKNOWLEDGE | DRIVER);
    let legacy = match registers.read32(VERSION) {
        1 => true,
        2 => false,
        _ => return Err("the device has an unknown version of virtio-mmio"),
    };
    let mut done = ACKNOWLEDGE | DRIVER;
    let offered = |select| {
        registers.write32(DEVICE_FEATURES_SELECT, select);
        registers.read32(DEVICE_FEATURES)
    };
    let [low, high] = wanted.0;
    let (low, high) = (offered(0) & low, if legacy { 0 } else { offered(1) & high });
    for (select, features) in [
        (0, low),
        (1, if legacy { 0 } else { high | VERSION_1_HIGH }),
    ] {
        registers.write32(DRIVER_FEATURES_SELECT, select);
        registers.write32(DRIVER_FEATURES, features);
    }
    if legacy {
        registers.write32(GUEST_PAGE_SIZE, 4096);
    } else {
        done |= FEATURES_OK;
        status(done);
        if registers.read32(STATUS) & u32::from(FEATURES_OK) == 0 {
            return Err("the device refuses the driver's features");
        }
    }
    kind.prepare(queue);
    let index = kind.queue_index();
    registers.write32(QUEUE_SELECT, u32::from(index));
    if registers.read32(QUEUE_SIZE_MAX) < u32::from(SIZE) {
        return Err("the device's queue is shorter than 8");
    }
    registers.write32(QUEUE_SIZE, u32::from(SIZE));
    let addresses = queue.addresses();
    if legacy {
        registers.write32(QUEUE_ALIGN, 4096);
        let page = u32::try_from(addresses[0] >> 12).map_err(|_| "the image is too high")?;
        registers.write32(QUEUE_PAGE, page);
    } else {
        for (place, address) in QUEUE_ADDRESSES.into_iter().zip(addresses) {
            registers.write32(place, (address & 0xffff_ffff) as u32);
            registers.write32(place + 4, (address >> 32) as u32);
        }
        registers.write32(QUEUE_READY, 1);
    }
    status(done | DRIVER_OK);
    let part = |offset, len| Registers::new(registers.address() + offset, len);
    let (notify, line) = part(QUEUE_NOTIFY, 4)
        .zip(part(INTERRUPT_STATUS, 8))
        .ok_or("the registers cannot be mapped")?;
    let reset = part(STATUS, 4).ok_or("the registers cannot be mapped")?;
    Device {
        kind,
        found_by,
        interrupt: pin.map(|(gsi, pin)| {
            Interrupt::Mmio(Line {
                pin,
                gsi,
                status: line,
            })
        }),
        notify: Notify {
            place: NotifyPlace::Mmio(notify),
            queue: index,
        },
        status: reset,
        queue,
        event_idx: low & EVENT_IDX != 0,
        packed: high & RING_PACKED_HIGH != 0,
        sum: 0,
    }
    .tried()
}
