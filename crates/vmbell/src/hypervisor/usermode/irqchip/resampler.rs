//! A resamplefd, which the ack of a GSI signals (Linux `irqfd_resampler_ack`). The stub signals it by its
//! descriptor in the sandbox, the monitor by its own, on the vCPU's thread.

use std::io;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use super::super::eventfd::has_room;

/// How long a removal waits for a signal that is under way. The signal is one system call; it takes longer only
/// if another process fills a blocking eventfd at that moment.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The resamplefd of an irqfd.
#[derive(Debug)]
pub struct Resampler {
    event: EventFd,
    /// Its descriptor in the sandbox; never 0.
    descriptor: u32,
    /// Whether the irqfd was removed. Locked while the monitor signals the resamplefd, which may block; so the
    /// thread that signals holds no other lock.
    is_removed: Mutex<bool>,
}

impl Resampler {
    /// A resamplefd whose number in the sandbox is `descriptor`.
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

    /// The monitor's ack: signals the resamplefd, unless the irqfd was removed.
    pub fn ack(&self) {
        let is_removed = self
            .is_removed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A reader of a full eventfd has a count to read anyway.
        if !*is_removed && has_room(&self.event) {
            let _ = self.event.write(1);
        }
    }

    /// Once this returns without an error, the monitor no longer signals the resamplefd.
    pub fn retire(&self) -> io::Result<()> {
        let deadline = Instant::now() + SIGNAL_TIMEOUT;
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
