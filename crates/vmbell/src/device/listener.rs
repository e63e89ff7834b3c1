//! A consumer thread that sleeps in `read` on an eventfd.
//!
//! What it does for a wake-up it does in pieces, between which it sees that it is to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use vmm_sys_util::eventfd::EventFd;

/// Hears the rings of one eventfd until it is dropped.
#[derive(Debug)]
pub struct Listener {
    event: Arc<EventFd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts a thread that runs `setup` once and then `heard` with the count of each wake-up. As long
    /// as `heard` says that more waits, it is called again, with a count of 0, and not slept before.
    ///
    /// `event` must block: one with EFD_NONBLOCK would make the thread spin.
    pub fn start(
        event: EventFd,
        setup: impl FnOnce() + Send + 'static,
        mut heard: impl FnMut(u64) -> bool + Send + 'static,
    ) -> io::Result<Self> {
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
        let thread = std::thread::Builder::new()
            .name("vmbell-listener".into())
            .spawn(listen)?;
        Ok(Self {
            event,
            stop,
            thread: Some(thread),
        })
    }

    /// The eventfd, for registration.
    pub fn event(&self) -> &EventFd {
        &self.event
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        // Wakes the thread, if nothing else does; a saturated counter has woken it already.
        let _ = self.event.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
