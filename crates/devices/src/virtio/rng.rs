//! The entropy device (virtio 1.3, 5.4): fills buffers with random bytes of the host's kernel (`getrandom(2)`). It runs on
//! the thread that serves the queue.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

use super::queue::{Handler, HandlerError};
use super::request::{Handled, Request};

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

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (mut to, _) = request.writable().split_at(MOST);
        let (mut bytes, mut written) = ([0; STEP], 0);
        while !to.is_empty() {
            let bytes = &mut bytes[..to.len().min(STEP)];
            let got = retry_on_intr(|| getrandom(&mut *bytes, GetRandomFlags::empty()));
            let got = got.map_err(|error| HandlerError::Host {
                operation: "get random bytes",
                source: error.into(),
            })?;
            written += to.write(&bytes[..got]);
        }
        Ok(request.complete(written))
    }
}

#[cfg(test)]
#[path = "rng_test.rs"]
mod tests;
