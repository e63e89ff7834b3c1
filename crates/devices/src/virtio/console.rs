//! The console device (virtio 1.3, 5.3) with one port: the driver's output goes to an [`Output`], and its input is read
//! from a descriptor directly into guest memory. A buffer waits while the output has no room for it. Runs on the
//! threads that serve the two queues.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::driver::HandlerError;
use super::host_io::read_once;
use super::queue::Handler;
use super::request::{Handled, Request};
use crate::output::{FULL, Output};

use vmbell::sync::{Condvar, Mutex, MutexGuard};

/// The receiving and the sending queue; a device with one port has one of each.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;
/// How many queues there are.
pub const CONSOLE_QUEUES: u16 = 2;

/// The maximum number of bytes taken from one buffer of the driver, so that an empty output has room. The bytes after
/// them are lost.
const MOST: usize = FULL;

/// How long a driver must have been ready before it gets input.
const SETTLED: Duration = Duration::from_millis(100);

/// Whether a console's driver takes input. Linux discards input that arrives while it sets up the console.
#[derive(Debug, Default)]
pub struct ConsoleReady {
    since: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl ConsoleReady {
    /// Waits until the driver has been ready for 100 ms.
    pub fn wait(&self) {
        let mut since = self.lock();
        loop {
            let left = left(*since, Instant::now());
            if left.is_zero() {
                return;
            }
            since = self.changed.wait_timeout(since, left);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock()
    }
}

/// How much longer a driver that has been ready `since` then must stay ready; the full time if it is not ready.
fn left(since: Option<Instant>, now: Instant) -> Duration {
    since.map_or(SETTLED, |since| {
        SETTLED.saturating_sub(now.duration_since(since))
    })
}

/// A console of the guest.
#[derive(Debug)]
pub struct Console {
    input: File,
    ready: Arc<ConsoleReady>,
    output: Output,
    /// Signalled when the output has room again.
    room: Arc<OwnedFd>,
}

impl Console {
    /// Creates a console that connects the driver to an input and an output of the host. The input is a pipe, a socket
    /// or a terminal, and is made non-blocking.
    ///
    /// # Errors
    ///
    /// If the input cannot be made non-blocking, or the process cannot have another descriptor.
    pub fn new(input: OwnedFd, output: &Output) -> io::Result<Self> {
        let flags = fcntl_getfl(&input)?;
        fcntl_setfl(&input, flags | OFlags::NONBLOCK)?;
        let room = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let signal = Arc::clone(&room);
        output.on_room(move || {
            // The write fails if the eventfd's count is full, and then the eventfd is readable anyway.
            let _ = rustix::io::write(&*signal, &1_u64.to_ne_bytes());
        });
        Ok(Self {
            input: input.into(),
            ready: Arc::default(),
            output: output.clone(),
            room,
        })
    }

    /// Returns a handle with which a thread waits until the console takes input.
    pub fn ready(&self) -> Arc<ConsoleReady> {
        Arc::clone(&self.ready)
    }
}

impl Handler for Console {
    const DEVICE_ID: u32 = 3;
    const NAME: &'static str = "virtio-console";

    fn accepted(&self, _features: u64) {
        *self.ready.lock() = Some(Instant::now());
        self.ready.changed.notify_all();
    }

    fn sources(&self) -> Vec<(u16, BorrowedFd<'_>)> {
        vec![(RECEIVE, self.input.as_fd()), (SEND, self.room.as_fd())]
    }

    /// Leaves a buffer of the driver waiting until there is input for it, or room for its output.
    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if request.queue() == RECEIVE {
            let to = request.writable();
            if to.is_empty() {
                return Ok(request.complete(0));
            }
            // Without input, and after the end of the input, the request waits. The descriptor wakes this thread when
            // there is input.
            let len = read_once(&self.input, to, &mut []).unwrap_or_default();
            return Ok(match len {
                0 => request.wait(),
                len => request.complete(len),
            });
        }
        let (from, _) = request.readable().split_at(MOST);
        let mut bytes = Vec::with_capacity(from.len());
        for slice in from.slices() {
            let begin = bytes.len();
            bytes.resize(begin + slice.len(), 0);
            slice.copy_to(&mut bytes[begin..]);
        }
        Ok(match self.output.offer(&bytes) {
            true => request.complete(0),
            false => request.wait(),
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "console_test.rs"]
mod tests;
