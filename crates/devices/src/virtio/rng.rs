//! The entropy device (virtio 1.3, 5.4): fills buffers with random bytes of the host's kernel (`getrandom(2)`). It runs on
//! the thread that serves the queue.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use vm_memory::{Bytes, GuestMemoryMmap};

use super::place::Place;
use super::queue::{Handler, HandlerError};
use vmbell::virtqueue::Chain;

/// The most bytes of an answer, so that no driver keeps a thread busy with one chain. A driver has to take fewer bytes
/// than its buffer has (virtio 1.3, 5.4.6.1).
const MOST: usize = 64 << 10;
/// How many bytes are asked for at once: the kernel gives that many without an interruption by a signal.
const STEP: usize = 256;

/// Random bytes. Its one queue is that of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy;

impl Handler for Entropy {
    const DEVICE_ID: u32 = 4;
    const NAME: &'static str = "virtio-rng";

    fn handle(&self, _: u16, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError> {
        let mut to = Place::new(chain.writable());
        let mut bytes = [0; STEP];
        let mut written = 0;
        loop {
            let wanted = to.left().min(STEP).min(MOST - written);
            if wanted == 0 {
                // The conversion cannot fail: `written` is at most MOST.
                return Ok(u32::try_from(written).unwrap_or(u32::MAX));
            }
            let bytes = &mut bytes[..wanted];
            let got = retry_on_intr(|| getrandom(&mut *bytes, GetRandomFlags::empty()));
            let got = got.map_err(|error| HandlerError::Host {
                operation: "get random bytes",
                source: error.into(),
            })?;
            let address = to.address();
            memory
                .write_slice(&bytes[..got], address)
                .map_err(|source| HandlerError::Outside { address, source })?;
            to.advance(got);
            written += got;
        }
    }
}

#[cfg(test)]
#[path = "rng_test.rs"]
mod tests;
