//! The console device (virtio 1.3, 5.3) with one port: the driver's output goes to a writer, and its input comes from a
//! descriptor. The threads that serve the two queues run it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::queue::{Handler, HandlerError};
use super::request::{Handled, Request};
use super::slices::{Readable, Writable};

/// The receiving and the sending queue; a device with one port has one of each.
const RECEIVE: u16 = 0;
/// How many queues there are.
pub const CONSOLE_QUEUES: u16 = 2;

/// How many bytes are copied at once.
const STEP: usize = 4 << 10;
/// The most bytes of one buffer of the driver's, so that no buffer keeps a thread busy; the bytes after them are lost.
const MOST: usize = 1 << 20;

/// How long a driver has to have been ready before it gets input.
const SETTLED: Duration = Duration::from_millis(100);

/// Whether a console's driver takes input. Linux throws away what arrives while it sets the console up.
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
            let waited = self.changed.wait_timeout(since, left);
            (since, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a driver that has been ready since then still has to be so, or one that is not ready.
fn left(since: Option<Instant>, now: Instant) -> Duration {
    since.map_or(SETTLED, |since| {
        SETTLED.saturating_sub(now.duration_since(since))
    })
}

/// A console of the guest.
pub struct Console<W> {
    input: File,
    ready: Arc<ConsoleReady>,
    /// What was read and the driver has no buffer for yet.
    waiting: Mutex<Vec<u8>>,
    output: Mutex<W>,
}

impl<W: Write + Send> Console<W> {
    /// A console between the driver and the two ends of the host. The input is a pipe, a socket or a terminal, which
    /// becomes non-blocking.
    ///
    /// # Errors
    ///
    /// If the input cannot become so.
    pub fn new(input: OwnedFd, output: W) -> io::Result<Self> {
        let flags = fcntl_getfl(&input)?;
        fcntl_setfl(&input, flags | OFlags::NONBLOCK)?;
        Ok(Self {
            input: input.into(),
            ready: Arc::default(),
            waiting: Mutex::default(),
            output: Mutex::new(output),
        })
    }

    /// Signals when the console takes input.
    pub fn ready(&self) -> Arc<ConsoleReady> {
        Arc::clone(&self.ready)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<u8>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the driver as much as its buffer has room for, and returns how much that is.
    fn receive(&self, mut to: Writable<'_>) -> usize {
        let mut waiting = self.waiting();
        let len = to.write(&waiting);
        waiting.drain(..len);
        len
    }

    /// Writes what the driver sends.
    fn send(&self, from: Readable<'_>) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut from, _) = from.split_at(MOST);
        let mut bytes = [0; STEP];
        while !from.is_empty() {
            let len = from.read(&mut bytes);
            output.write_all(&bytes[..len])?;
        }
        output.flush()
    }
}

impl<W: Write + Send> Handler for Console<W> {
    const DEVICE_ID: u32 = 3;
    const NAME: &'static str = "virtio-console";

    fn accepted(&self, _features: u64) {
        *self.ready.lock() = Some(Instant::now());
        self.ready.changed.notify_all();
    }

    fn source(&self) -> Option<(u16, BorrowedFd<'_>)> {
        Some((RECEIVE, self.input.as_fd()))
    }

    /// Sending never waits. A buffer of the driver waits until there is something for it.
    fn is_ready(&self, queue: u16) -> bool {
        if queue != RECEIVE {
            return true;
        }
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            let mut bytes = [0; STEP];
            // Nothing, or the end: the descriptor wakes us when there is more.
            let read = (&self.input).read(&mut bytes).unwrap_or_default();
            waiting.extend(&bytes[..read]);
        }
        !waiting.is_empty()
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        if request.queue() == RECEIVE {
            let written = self.receive(request.writable());
            return Ok(request.complete(written));
        }
        let sent = self.send(request.readable());
        sent.map_err(|source| HandlerError::Host {
            operation: "write what the guest says",
            source,
        })?;
        Ok(request.complete(0))
    }
}

impl<W> fmt::Debug for Console<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "console_test.rs"]
mod tests;
