//! A driver that gives a device one chain, and memory for both: for the tests of handlers.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{Handler, HandlerError};
use vmbell::virtqueue::{
    Buffer, Chain, DeviceQueue, DriverQueue, Features, SplitDevice, SplitDriver, SplitLayout, brand,
};

/// Size of the memory in bytes, and an address in it that no ring has.
pub(super) const RAM: usize = 0x4_0000;
pub(super) const DATA: u64 = 0x1_0000;

/// What a device answers to a chain of these buffers in one of its queues.
pub(super) fn answer(
    device: &impl Handler,
    queue: u16,
    memory: &GuestMemoryMmap,
    readable: &[Buffer],
    writable: &[Buffer],
) -> Result<u32, HandlerError> {
    let layout = SplitLayout::contiguous(0, 8);
    brand::scoped(|brand| {
        let memory = Arc::new(memory.clone());
        let mut driver = SplitDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        let mut ring = SplitDevice::new(&memory, &layout, Features::default()).unwrap();
        driver.add(readable, writable, ()).unwrap();
        let mut chain = Chain::with_capacity(8);
        let _ = ring.pop(&mut chain).unwrap().unwrap();
        device.handle(queue, &memory, &chain)
    })
}

pub(super) fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap()
}

pub(super) fn bytes(memory: &GuestMemoryMmap, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
    bytes
}
