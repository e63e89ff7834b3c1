//! The test device: answers each request with its bytes inverted, so that the answer differs from what was in the
//! buffer before. It runs on the thread that serves the queue.

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::place::Place;
use super::queue::{Handler, HandlerError};
use vmbell::virtqueue::Chain;

/// The most bytes of an answer, so that no driver keeps a thread busy with one chain.
const MOST: usize = 64 << 10;
/// How many bytes are copied at once.
const STEP: usize = 256;

/// Writes the inverted bytes of a chain's readable part to its writable part, up to 64 KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inverter;

impl Handler for Inverter {
    /// Above all assigned device IDs (virtio 1.3, 5): no operating system has a driver for it.
    const DEVICE_ID: u32 = 0xffff;
    const NAME: &'static str = "virtio-inverter";

    fn handle(&self, _: u16, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError> {
        let mut from = Place::new(chain.readable());
        let mut to = Place::new(chain.writable());
        let mut bytes = [0; STEP];
        let mut written = 0;
        loop {
            let count = from.left().min(to.left()).min(STEP).min(MOST - written);
            if count == 0 {
                // The conversion cannot fail: `written` is at most MOST.
                return Ok(u32::try_from(written).unwrap_or(u32::MAX));
            }
            let bytes = &mut bytes[..count];
            let outside =
                |address: GuestAddress| move |source| HandlerError::Outside { address, source };
            memory
                .read_slice(bytes, from.address())
                .map_err(outside(from.address()))?;
            for byte in bytes.iter_mut() {
                *byte = !*byte;
            }
            memory
                .write_slice(bytes, to.address())
                .map_err(outside(to.address()))?;
            from.advance(count);
            to.advance(count);
            written += count;
        }
    }
}
