//! The test device: answers each request with the request's bytes inverted, so that the answer differs from the
//! buffer's earlier contents. Runs on the thread that serves the queue.

use super::driver::HandlerError;
use super::queue::Handler;
use super::request::{Handled, Request};

/// The maximum number of bytes of an answer, so that no driver keeps a thread busy with one chain.
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

    #[inline]
    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (mut from, mut to) = (request.readable(), request.writable());
        let len = from.len().min(to.len()).min(MOST);
        let (mut bytes, mut written) = ([0; STEP], 0);
        while written < len {
            let bytes = &mut bytes[..STEP.min(len - written)];
            from.read(bytes);
            for byte in bytes.iter_mut() {
                *byte = !*byte;
            }
            written += to.write(bytes);
        }
        Ok(request.complete(written))
    }
}
