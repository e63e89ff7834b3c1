//! The entropy device (virtio 1.3, 5.4): the host's kernel fills buffers with random bytes (`getrandom(2)`). Runs on
//! the thread that serves the queue.

use super::driver::HandlerError;
use super::host_io::fill_randomly;
use super::queue::Handler;
use super::request::{Handled, Request};

/// The maximum number of bytes of an answer, so that no driver keeps a thread busy with one chain. A driver must accept
/// fewer bytes than its buffer has room for (virtio 1.3, 5.4.6.1).
const MOST: usize = 64 << 10;

/// Random bytes. Its only queue takes requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy;

impl Handler for Entropy {
    const DEVICE_ID: u32 = 4;
    const NAME: &'static str = "virtio-rng";

    fn is_stateless(&self) -> bool {
        true
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (to, _) = request.writable().split_at(MOST);
        fill_randomly(to).map_err(|source| HandlerError::Host {
            operation: "get random bytes",
            source,
        })?;
        let written = to.len();
        Ok(request.complete(written))
    }
}

#[cfg(test)]
#[path = "rng_test.rs"]
mod tests;
