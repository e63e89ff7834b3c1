//! The thread that serves a queue when the host has something for it.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::{Handler, Queue};

/// The thread, until this is dropped.
pub(super) struct Source {
    wake: EventFd,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Source {
    /// Starts the thread, which serves `queue` each time that something arrives at `readable`. A descriptor that stays
    /// readable wakes it once: what the ring has no room for now is served when the driver notifies.
    pub(super) fn start<D: Handler + 'static>(
        readable: OwnedFd,
        queue: Arc<Queue<D>>,
    ) -> io::Result<Self> {
        const ARRIVED: u64 = 0;
        const WAKE: u64 = 1;
        let wake = EventFd::new(EFD_NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let epoll = Epoll::new()?;
        let add = |descriptor: &dyn AsRawFd, events, data| {
            let event = EpollEvent::new(events, data);
            epoll.ctl(ControlOperation::Add, descriptor.as_raw_fd(), event)
        };
        add(&readable, EventSet::IN | EventSet::EDGE_TRIGGERED, ARRIVED)?;
        add(&wake, EventSet::IN, WAKE)?;
        let their_stop = Arc::clone(&stop);
        let wait = move || {
            // The descriptor is part of the set for as long as the thread runs.
            let _readable = readable;
            let mut events = [EpollEvent::default(); 2];
            loop {
                match epoll.wait(-1, &mut events) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return,
                    Ok(_) => {}
                }
                // A driver and a network that never rest do not keep the thread from its end.
                while !their_stop.load(Acquire) && queue.serve().more {}
                if their_stop.load(Acquire) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(D::NAME.to_owned())
            .spawn(wait)?;
        Ok(Self {
            wake,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        // The write fails only if the count is at its limit: then a wake-up is on its way.
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
