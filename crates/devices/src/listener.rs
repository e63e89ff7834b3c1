//! A consumer thread that sleeps in `read` on an eventfd.
//!
//! It does the work of a wake-up in pieces, between which it checks whether it must stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use vmm_sys_util::eventfd::EventFd;

use vmbell::eventfd::Signaller;
use vmbell::thread::{self, ThreadKind};

/// A thread that waits for the signals of one eventfd until this is dropped.
#[derive(Debug)]
pub struct Listener {
    event: Arc<EventFd>,
    stop: Arc<AtomicBool>,
    signaller: &'static Signaller,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts a thread that runs `setup` once and then calls `heard` with the count of each wake-up. As long as
    /// `heard` returns that there is more work, the thread calls it again with a count of 0 before it sleeps.
    ///
    /// `event` must be blocking: with EFD_NONBLOCK the thread would end.
    ///
    /// # Errors
    ///
    /// If the process cannot have more threads, or the kernel has no asynchronous I/O.
    pub fn start(
        event: EventFd,
        setup: impl FnOnce() + Send + 'static,
        mut heard: impl FnMut(u64) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let signaller = Signaller::of_process()?;
        let (event, stop) = (Arc::new(event), Arc::new(AtomicBool::new(false)));
        let (their_event, their_stop) = (Arc::clone(&event), Arc::clone(&stop));
        let listen = move || {
            setup();
            while let Ok(count) = their_event.read() {
                let mut count = count;
                loop {
                    if their_stop.load(Acquire) {
                        return;
                    }
                    if !heard(count) {
                        break;
                    }
                    count = 0;
                }
            }
        };
        let thread = thread::spawn(ThreadKind::Device, "vmbell-listener", listen)?;
        Ok(Self {
            event,
            stop,
            signaller,
            thread: Some(thread),
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

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        // The thread wakes, whatever the count is.
        self.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "listener_test.rs"]
mod tests;
