//! Timers of an [`EventLoop`]: timerfds (Linux, `timerfd_create(2)`), which the loop's thread waits for as for any other
//! descriptor.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use vmm_sys_util::timerfd::TimerFd;

use super::{EventLoop, EventSet};

use crate::sync::{Mutex, MutexGuard};

/// A timer that any thread may set. It ends with its loop.
#[derive(Clone)]
pub struct Timer(Arc<Shared>);

struct Shared(Mutex<TimerFd>);

impl EventLoop {
    /// Adds a timer that is not set yet. Each time the timer expires, the loop's thread calls `callback` with it.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors.
    pub fn add_timer(
        &self,
        mut callback: impl FnMut(&Timer) + Send + 'static,
    ) -> io::Result<Timer> {
        let timer = Timer(Arc::new(Shared(Mutex::new(TimerFd::new()?))));
        let theirs = timer.clone();
        // Each expiry is an edge, so the count need not be read. This excludes periodic timers: the kernel starts the
        // next period only when the count is read.
        let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
        self.add(Descriptor(Arc::clone(&timer.0)), edges, move || {
            callback(&theirs);
            false
        })?;
        Ok(timer)
    }
}

impl Timer {
    /// Sets the timer to expire once, after this time. This replaces an earlier setting, but the timer may already have
    /// expired, with a call of the callback on its way. For a periodic timer, the callback sets the timer again.
    pub fn set(&self, after: Duration) {
        // A zero would disarm the timer.
        let after = after.max(Duration::from_nanos(1));
        // Cannot fail: the descriptor is a timerfd, and the nanoseconds of a duration are below one second.
        let _ = self.0.lock().reset(after, None);
    }

    /// Disarms the timer. An earlier expiry may still be on its way.
    pub fn clear(&self) {
        // Cannot fail, as above.
        let _ = self.0.lock().clear();
    }
}

/// The loop's reference to the timer.
struct Descriptor(Arc<Shared>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TimerFd> {
        self.0.lock()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.lock().as_raw_fd()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timer")
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "timer_test.rs"]
mod tests;
