//! For tests of handlers: a driver that gives a device one chain, and memory for both.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_virtqueue::{Buffer, Features, SplitDriver, SplitLayout, brand};

use super::driver::{DriverSide, HandlerError};
use super::live_ring::LiveRing;
use super::mmio::Interrupt;
use super::queue::Handler;
use super::request::{Outcome, Request, SliceList};
use super::ring::{QueueRegisters, Ring};
use kit::wait::await_that;

/// Size of the memory in bytes, and an address in it that no ring has.
pub(super) const RAM: usize = 0x4_0000;
pub(super) const DATA: u64 = 0x1_0000;

/// The driver's side of a device without a transport.
pub(super) fn driver_side(memory: &GuestMemoryMmap) -> DriverSide {
    DriverSide {
        memory: Arc::new(memory.clone()),
        interrupts: Arc::new(Interrupt::none()),
        trouble: Arc::default(),
    }
}

/// The device's side of a ring.
pub(super) fn ring(memory: &GuestMemoryMmap, layout: &SplitLayout, features: u64) -> Ring {
    let registers = QueueRegisters {
        size: layout.size.into(),
        descriptors: layout.descriptors,
        driver: layout.avail,
        device: layout.used,
        ..QueueRegisters::default()
    };
    Ring::new(&Arc::new(memory.clone()), 0, &registers, features).unwrap()
}

/// Returns what a device answers to a chain of these buffers in one of its queues.
pub(super) fn answer(
    device: &impl Handler,
    queue: u16,
    memory: &GuestMemoryMmap,
    readable: &[Buffer],
    writable: &[Buffer],
) -> Result<u32, HandlerError> {
    let answer = answer_now(device, queue, memory, readable, writable);
    answer.map(|written| written.expect("it does not wait"))
}

/// Like [`answer`], but returns `None` if the chain waits for the host.
pub(super) fn answer_now(
    device: &impl Handler,
    queue: u16,
    memory: &GuestMemoryMmap,
    readable: &[Buffer],
    writable: &[Buffer],
) -> Result<Option<u32>, HandlerError> {
    let layout = SplitLayout::contiguous(0, 16);
    brand::scoped(|brand| {
        let theirs = Arc::new(memory.clone());
        let mut driver = SplitDriver::new(&theirs, &layout, Features::default(), brand).unwrap();
        driver.add(readable, writable, ()).unwrap();
        let live_ring = Arc::new(LiveRing::new(queue, driver_side(memory)));
        live_ring.start(ring(memory, &layout, 0), false);
        let handled = live_ring.serve(|live| {
            let live = live.as_mut().unwrap();
            let head = live.next().unwrap().unwrap();
            let mut slices = SliceList::new(memory);
            let looked_up = slices.look_up(live.chain.readable(), live.chain.writable());
            let handled = looked_up.and_then(|()| {
                device.handle(Request {
                    slices: &slices,
                    head,
                    live,
                    ring: &live_ring,
                })
            });
            Some(handled)
        });
        let (handled, _) = handled.unwrap();
        match handled.unwrap()?.0 {
            Outcome::Complete(_, written) => Ok(Some(written)),
            Outcome::Waits(_) => Ok(None),
            Outcome::Deferred => {
                let mut written = None;
                await_that("an answer", || {
                    let used = driver.get_used().unwrap();
                    written = used.map(|used| used.len);
                    written.is_some()
                });
                Ok(written)
            }
        }
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
