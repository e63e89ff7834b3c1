//! A thread that an eventfd wakes: a consumer of doorbells.
//!
//! It does the work of a wake-up in pieces, between which it checks whether it must stop.

use std::io;
use std::sync::Arc;

use vmbell::eventfd::{EFD_NONBLOCK, EventFd, Signaller};
use vmbell::thread::{EventLoop, EventSet, ThreadKind};

/// A thread that waits for the signals of its eventfd until this is dropped.
#[derive(Debug)]
pub struct Listener {
    event: Arc<EventFd>,
    signaller: &'static Signaller,
    _thread: EventLoop,
}

impl Listener {
    /// Starts a thread that runs `setup` once and then calls `heard` for each signal, or for several at once. As long as
    /// `heard` returns that there is more work, the thread calls it again before it sleeps.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or the kernel has no asynchronous I/O.
    pub fn start(
        setup: impl FnOnce() + Send + 'static,
        heard: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let signaller = Signaller::of_process()?;
        let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
        let thread = EventLoop::with_setup(ThreadKind::Device, "vmbell-listener", setup)?;
        // The count is never read, because that is a second system call for each signal: a signal is an edge, whatever
        // the count is. Only a guest that has filled the count itself can ring in vain.
        let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
        thread.add(Arc::clone(&event), edges, heard)?;
        Ok(Self {
            event,
            signaller,
            _thread: thread,
        })
    }

    /// The eventfd, for registration.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Signals the eventfd, which its guest may have filled.
    pub fn signal(&self) {
        self.signaller.signal(&self.event);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "listener_test.rs"]
mod tests;
