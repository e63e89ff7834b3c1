//! A thread that waits until something happens at a descriptor.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use vmbell::thread::{self, ThreadKind};

/// The thread, until this is dropped.
pub(super) struct Watch {
    wake: EventFd,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread, which calls `happened` once for each of these events, but not again for one that stays. As long
    /// as `happened` returns that there is more to do, it is called again.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or if the descriptor cannot be waited for.
    pub(super) fn start(
        descriptor: impl AsRawFd + Send + 'static,
        events: EventSet,
        name: &str,
        mut happened: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        const HAPPENED: u64 = 0;
        const WAKE: u64 = 1;
        let wake = EventFd::new(EFD_NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let epoll = Epoll::new()?;
        let add = |descriptor: &dyn AsRawFd, events, data| {
            let event = EpollEvent::new(events, data);
            epoll.ctl(ControlOperation::Add, descriptor.as_raw_fd(), event)
        };
        add(&descriptor, events | EventSet::EDGE_TRIGGERED, HAPPENED)?;
        add(&wake, EventSet::IN, WAKE)?;
        let their_stop = Arc::clone(&stop);
        let wait = move || {
            // The descriptor is part of the set for as long as the thread runs.
            let _descriptor = descriptor;
            let mut events = [EpollEvent::default(); 2];
            loop {
                match epoll.wait(-1, &mut events) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return,
                    Ok(_) => {}
                }
                // Work that never ends does not keep the thread from its end.
                while !their_stop.load(Acquire) && happened() {}
                if their_stop.load(Acquire) {
                    return;
                }
            }
        };
        let thread = thread::spawn(ThreadKind::Device, name, wait)?;
        Ok(Self {
            wake,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        // The write fails only if the count is at its limit: then a wake-up is on its way.
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
