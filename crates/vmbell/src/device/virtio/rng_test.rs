use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use crate::virtqueue::{
    Buffer, DeviceQueue, DriverQueue, Features, SplitDevice, SplitDriver, SplitLayout, brand,
};

const RAM: usize = 0x4_0000;
const DATA: u64 = 0x1_0000;

/// What the device answers to a request of these buffers.
fn answer(
    memory: &GuestMemoryMmap,
    readable: &[Buffer],
    writable: &[Buffer],
) -> Result<u32, HandlerError> {
    let layout = SplitLayout::contiguous(0, 8);
    brand::scoped(|brand| {
        let memory = std::sync::Arc::new(memory.clone());
        let mut driver = SplitDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, Features::default()).unwrap();
        driver.add(readable, writable, ()).unwrap();
        let mut chain = Chain::with_capacity(8);
        let _ = device.pop(&mut chain).unwrap().unwrap();
        Entropy.handle(0, &memory, &chain)
    })
}

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap()
}

fn bytes(memory: &GuestMemoryMmap, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
    bytes
}

#[test]
fn each_request_gets_other_bytes_and_nothing_beside_them() {
    let memory = memory();
    let buffer = [Buffer::new(DATA, 32)];
    assert_eq!(answer(&memory, &[], &buffer).unwrap(), 32);
    let first = bytes(&memory, DATA, 32);
    assert_eq!(answer(&memory, &[], &buffer).unwrap(), 32);
    assert_ne!(bytes(&memory, DATA, 32), first);
    assert_eq!(bytes(&memory, DATA + 32, 32), [0; 32]);
    assert_eq!(bytes(&memory, DATA - 32, 32), [0; 32]);
}

#[test]
fn all_pieces_are_filled_and_what_the_driver_wrote_is_left_alone() {
    let memory = memory();
    let pieces = [
        Buffer::new(DATA, 300),
        Buffer::new(DATA + 0x1000, 0),
        Buffer::new(DATA + 0x2000, 32),
    ];
    let readable = [Buffer::new(DATA + 0x3000, 32)];
    assert_eq!(answer(&memory, &readable, &pieces).unwrap(), 332);
    assert_ne!(bytes(&memory, DATA + 268, 32), [0; 32]);
    assert_ne!(bytes(&memory, DATA + 0x2000, 32), [0; 32]);
    assert_eq!(bytes(&memory, DATA + 0x3000, 32), [0; 32]);
}

#[test]
fn an_answer_has_64_kib_at_most() {
    let memory = memory();
    let buffer = [Buffer::new(DATA, 0x1_8000)];
    assert_eq!(answer(&memory, &[], &buffer).unwrap(), 0x1_0000);
    assert_ne!(bytes(&memory, DATA + 0xffe0, 32), [0; 32]);
    assert_eq!(bytes(&memory, DATA + 0x1_0000, 32), [0; 32]);
}

#[test]
fn a_request_without_room_is_answered_with_nothing() {
    let memory = memory();
    let readable = [Buffer::new(DATA, 8)];
    assert_eq!(answer(&memory, &readable, &[]).unwrap(), 0);
}

#[test]
fn a_buffer_outside_of_ram_is_an_error_that_names_it() {
    let memory = memory();
    let outside = [Buffer::new(RAM as u64, 8)];
    let error = answer(&memory, &[], &outside).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a buffer at 0x40000 is not in guest memory"
    );
}
