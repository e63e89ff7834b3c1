//! A resamplefd, which the ack of a GSI signals (Linux `irqfd_resampler_ack`): the stub by its descriptor in
//! the sandbox, the monitor by its own.

use std::io;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::super::eventfd::has_room;

/// How long a removal waits for a signal under way. It takes a system call, unless somebody else fills
/// an eventfd that blocks at that very moment.
const PATIENCE: Duration = Duration::from_secs(1);

/// A resamplefd of an irqfd.
#[derive(Debug)]
pub struct Resampler {
    event: EventFd,
    /// Its descriptor in the sandbox, not 0.
    descriptor: u32,
    /// Locked while the monitor signals it: nobody else's lock is held then, as it may block.
    is_removed: Mutex<bool>,
}

impl Resampler {
    /// Of an eventfd that the sandbox has by this descriptor.
    pub fn new(event: EventFd, descriptor: u32) -> Self {
        Self {
            event,
            descriptor,
            is_removed: Mutex::new(false),
        }
    }

    /// Its descriptor in the sandbox.
    pub fn descriptor(&self) -> u32 {
        self.descriptor
    }

    /// The monitor's ack: signals it, unless it was removed.
    pub fn ack(&self) {
        let is_removed = self
            .is_removed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Whoever waits for a full one has enough to read.
        if !*is_removed && has_room(&self.event) {
            let _ = self.event.write(1);
        }
    }

    /// When it returns without an error, the monitor signals it no more.
    pub fn retire(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.is_removed.try_lock() {
                Ok(mut is_removed) => *is_removed = true,
                Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = true,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::yield_now();
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "a signal of its resamplefd is under way; does nobody read it?",
                    ));
                }
            }
            return Ok(());
        }
    }
}
