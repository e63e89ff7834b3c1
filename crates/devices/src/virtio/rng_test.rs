use vm_memory::GuestMemoryMmap;

use super::*;
use crate::virtio::answer_double::{self, DATA, RAM, bytes, memory};
use vmbell_virtqueue::Buffer;

/// Returns what the device answers to a request with these buffers.
fn answer(
    memory: &GuestMemoryMmap,
    readable: &[Buffer],
    writable: &[Buffer],
) -> Result<u32, HandlerError> {
    answer_double::answer(&Entropy, 0, memory, readable, writable)
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
