//! The common configuration (virtio 1.3, 4.1.4.3), on the thread of the vCPU that accesses it. Each field is accessed
//! at its own width, and fields of 64 bits also by halves (4.1.3.1). Any other access is a mistake of the driver: it
//! reads zeros and writes nothing.

use vmbell_virtqueue::Status;

use super::interrupts::{NO_VECTOR, PciInterrupts};
use crate::virtio::device::{Control, DriverRegisters, half, set_half};
use crate::virtio::ring::QueueRegisters;

/// Offset and width of each field.
const DEVICE_FEATURE_SELECT: (u64, usize) = (0, 4);
const DEVICE_FEATURE: (u64, usize) = (4, 4);
const DRIVER_FEATURE_SELECT: (u64, usize) = (8, 4);
const DRIVER_FEATURE: (u64, usize) = (12, 4);
const CONFIG_VECTOR: (u64, usize) = (16, 2);
const NUM_QUEUES: (u64, usize) = (18, 2);
const STATUS: (u64, usize) = (20, 1);
const QUEUE_SELECT: (u64, usize) = (22, 2);
const QUEUE_SIZE: (u64, usize) = (24, 2);
const QUEUE_VECTOR: (u64, usize) = (26, 2);
const QUEUE_ENABLE: (u64, usize) = (28, 2);
const QUEUE_NOTIFY_OFF: (u64, usize) = (30, 2);
/// The addresses of the selected queue: descriptors, driver area, device area.
const ADDRESSES: u64 = 32;
const ADDRESSES_END: u64 = 56;

/// Reads a field.
pub(super) fn read(control: &Control, interrupts: &PciInterrupts, offset: u64, data: &mut [u8]) {
    let registers = control.registers();
    let value = if is_address(offset, data.len()) {
        address(&registers, offset)
    } else {
        field(control, interrupts, &registers, (offset, data.len()))
    };
    data.fill(0);
    for (byte, value) in data.iter_mut().zip(value.to_le_bytes()) {
        *byte = value;
    }
}

fn field(
    control: &Control,
    interrupts: &PciInterrupts,
    registers: &DriverRegisters,
    field: (u64, usize),
) -> u64 {
    let selected = registers.selected();
    match field {
        DEVICE_FEATURE_SELECT => registers.device_features_sel.into(),
        DEVICE_FEATURE => control.offered(registers).into(),
        DRIVER_FEATURE_SELECT => registers.driver_features_sel.into(),
        DRIVER_FEATURE => half(registers.driver_features, registers.driver_features_sel).into(),
        CONFIG_VECTOR => interrupts.config_vector().into(),
        NUM_QUEUES => registers.queues.len() as u64,
        STATUS => control.status(registers).0.into(),
        QUEUE_SELECT => registers.queue_sel.into(),
        QUEUE_SIZE => selected.map_or(0, |(_, queue)| queue.size.into()),
        QUEUE_VECTOR => selected
            .map_or(NO_VECTOR, |(index, _)| interrupts.queue_vector(index))
            .into(),
        QUEUE_ENABLE => selected.map_or(0, |(_, queue)| queue.ready.into()),
        QUEUE_NOTIFY_OFF => selected.map_or(0, |(index, _)| index.into()),
        _ => 0,
    }
}

/// Writes a field.
pub(super) fn write(control: &Control, interrupts: &PciInterrupts, offset: u64, data: &[u8]) {
    let mut registers = control.registers();
    let registers = &mut *registers;
    if is_address(offset, data.len()) {
        for (offset, half) in (offset..).step_by(4).zip(data.chunks(4)) {
            if let (Some(queue), Ok(half)) = (registers.selected_mut(), half.try_into()) {
                let (address, upper) = address_mut(queue, offset);
                set_half(address, upper, u32::from_le_bytes(half));
            }
        }
        return;
    }
    match *data {
        [value] if (offset, 1) == STATUS => control.set_status(registers, Status(value)),
        [low, high] => {
            let value = u16::from_le_bytes([low, high]);
            write_word(control, interrupts, registers, (offset, 2), value);
        }
        [a, b, c, d] => {
            let value = u32::from_le_bytes([a, b, c, d]);
            match (offset, 4) {
                DEVICE_FEATURE_SELECT => registers.device_features_sel = value,
                DRIVER_FEATURE_SELECT => registers.driver_features_sel = value,
                DRIVER_FEATURE => control.choose(registers, value),
                _ => {}
            }
        }
        _ => {}
    }
}

fn write_word(
    control: &Control,
    interrupts: &PciInterrupts,
    registers: &mut DriverRegisters,
    field: (u64, usize),
    value: u16,
) {
    match field {
        CONFIG_VECTOR => interrupts.set_config_vector(value),
        QUEUE_SELECT => registers.queue_sel = value.into(),
        QUEUE_SIZE => {
            if let Some(queue) = registers.selected_mut() {
                queue.size = value.into();
            }
        }
        QUEUE_VECTOR => {
            if let Some((index, _)) = registers.selected() {
                interrupts.set_queue_vector(index, value);
            }
        }
        // A driver cannot disable a queue by writing 0; only a reset does so.
        QUEUE_ENABLE if value == 1 => control.enable_queue(registers),
        _ => {}
    }
}

/// Whether an access is to one of a queue's addresses, or to half of one.
const fn is_address(offset: u64, len: usize) -> bool {
    offset >= ADDRESSES
        && offset < ADDRESSES_END
        && matches!(len, 4 | 8)
        && offset.is_multiple_of(len as u64)
}

/// Returns the selected queue's address at an offset, shifted right by 32 if the offset is that of the upper half.
fn address(registers: &DriverRegisters, offset: u64) -> u64 {
    let Some((_, mut queue)) = registers.selected() else {
        return 0;
    };
    let (address, upper) = address_mut(&mut queue, offset);
    if upper == 0 { *address } else { *address >> 32 }
}

/// Returns the address at an offset, and which half of it the offset selects: 0 is the low one.
fn address_mut(queue: &mut QueueRegisters, offset: u64) -> (&mut u64, usize) {
    let upper = usize::from(offset % 8 >= 4);
    let address = match (offset - ADDRESSES) / 8 {
        0 => &mut queue.descriptors,
        1 => &mut queue.driver,
        _ => &mut queue.device,
    };
    (address, upper)
}
