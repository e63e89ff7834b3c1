//! A thread that sleeps in `epoll_wait` (Linux, `epoll(7)`) until one of its descriptors is ready, and then calls the
//! callback of that descriptor. Any thread adds and removes descriptors; the thread ends when its owner drops the
//! [`EventLoop`].
//!
//! Callbacks of one loop wait for each other. A callback that may block, on a lock that is held for long or on a full
//! descriptor, needs a separate loop.

use std::fmt;
use std::io;
use std::mem::take;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;
use std::time::Duration;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::callbacks::Callbacks;
use super::{ThreadKind, spawn};

/// How long [`EventLoop::remove`] waits for a running callback.
const LIMIT: Duration = Duration::from_secs(5);

/// The number of the eventfd that wakes the thread; callbacks have other numbers.
const WAKE: u64 = 0;

type Descriptor = Box<dyn AsRawFd + Send>;

/// A thread that waits for descriptors, until the value is dropped.
///
/// ```
/// use std::sync::mpsc::channel;
/// use vmbell::eventfd::{EFD_NONBLOCK, EventFd, drain};
/// use vmbell::thread::{EventLoop, EventSet, ThreadKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event_loop = EventLoop::new(ThreadKind::Device, "example")?;
/// let event = EventFd::new(EFD_NONBLOCK)?;
/// let (rings, counted) = channel();
/// let same = event.try_clone()?;
/// let token = event_loop.add(event.try_clone()?, EventSet::IN, move || {
///     drain(&same);
///     let _ = rings.send(());
///     false // There is no more to do before the next notification.
/// })?;
/// event.write(1)?;
/// counted.recv()?;
/// event_loop.remove(token)?;
/// # Ok(())
/// # }
/// ```
pub struct EventLoop {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A descriptor that an [`EventLoop`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(u64);

/// A callback that was removed still runs. It will not be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a callback that was removed still runs after {} s", waited.as_secs())]
#[non_exhaustive]
pub struct StillRunning {
    /// How long the removal has waited for the callback.
    pub waited: Duration,
}

struct Shared {
    epoll: Epoll,
    wake: EventFd,
    stop: AtomicBool,
    callbacks: Callbacks<Descriptor>,
}

impl EventLoop {
    /// Starts a thread of this kind and name, which waits for nothing yet.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub fn new(kind: ThreadKind, name: &str) -> io::Result<Self> {
        Self::with_setup(kind, name, || {})
    }

    /// Like [`new`](Self::new), but the thread calls `setup` first.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub fn with_setup(
        kind: ThreadKind,
        name: &str,
        setup: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            epoll: Epoll::new()?,
            wake: EventFd::new(EFD_NONBLOCK)?,
            stop: AtomicBool::new(false),
            callbacks: Callbacks::new(),
        });
        shared.watch(&shared.wake, EventSet::IN, WAKE)?;
        let theirs = Arc::clone(&shared);
        let thread = spawn(kind, name, move || {
            setup();
            theirs.run();
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Calls `callback` on the thread repeatedly while the descriptor is ready, or with [`EventSet::EDGE_TRIGGERED`]
    /// once for each event. A callback that returns true has more to do. It is called again after the callbacks of the
    /// other ready descriptors.
    ///
    /// The loop keeps the descriptor open until its removal, because epoll cannot forget a descriptor that was closed
    /// first. A duplicate counts as another descriptor.
    ///
    /// # Errors
    ///
    /// If the descriptor is in the loop already, or epoll cannot wait for its kind of file.
    pub fn add(
        &self,
        descriptor: impl AsRawFd + Send + 'static,
        interest: EventSet,
        callback: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Token> {
        let watch =
            |descriptor: &Descriptor, number| self.shared.watch(&**descriptor, interest, number);
        let callbacks = &self.shared.callbacks;
        let number = callbacks.add(Box::new(descriptor), Box::new(callback), watch)?;
        Ok(Token(number))
    }

    /// Stops waiting for a descriptor. When this returns, its callback neither runs nor will run, and is dropped. On
    /// the loop's own thread, for example in the callback itself, it does not wait for the call to end. Does nothing if
    /// the descriptor was already removed.
    ///
    /// # Errors
    ///
    /// If the callback still runs after 5 seconds.
    pub fn remove(&self, token: Token) -> Result<(), StillRunning> {
        let Token(number) = token;
        self.shared.callbacks.remove(number, |descriptor| {
            // Cannot fail for a descriptor that was added and is still open.
            let (delete, entry) = (ControlOperation::Delete, EpollEvent::default());
            let _ = self.shared.epoll.ctl(delete, descriptor.as_raw_fd(), entry);
        });
        if self.is_current() || self.shared.callbacks.await_return(number, LIMIT) {
            return Ok(());
        }
        Err(StillRunning { waited: LIMIT })
    }

    /// Returns whether the calling thread is the loop's.
    fn is_current(&self) -> bool {
        let this = std::thread::current().id();
        self.thread
            .as_ref()
            .is_some_and(|thread| thread.thread().id() == this)
    }
}

impl Shared {
    fn watch(&self, descriptor: &dyn AsRawFd, events: EventSet, number: u64) -> io::Result<()> {
        let entry = EpollEvent::new(events, number);
        self.epoll
            .ctl(ControlOperation::Add, descriptor.as_raw_fd(), entry)
    }

    /// The thread's main loop. Each round calls, once, each callback that is ready or has more to do.
    fn run(&self) {
        let mut events = [EpollEvent::default(); 32];
        let mut unfinished = Vec::new();
        loop {
            let timeout = if unfinished.is_empty() { -1 } else { 0 };
            let count = match self.epoll.wait(timeout, &mut events) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No other error is possible with an open descriptor and a valid buffer.
                Err(_) => return,
            };
            let waited = take(&mut unfinished);
            let ready = events[..count].iter().map(EpollEvent::data);
            let ready = ready.filter(|number| !waited.contains(number));
            for number in waited.iter().copied().chain(ready) {
                if self.stop.load(Acquire) {
                    return;
                }
                if self.callbacks.call(number) {
                    unfinished.push(number);
                }
            }
        }
    }
}

impl Drop for EventLoop {
    /// Ends the thread after the callback that is running, even if other descriptors are ready. Does not wait if it is
    /// called in a callback.
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        // Only this code writes to the eventfd, so there is room in the count.
        let _ = self.shared.wake.write(1);
        if !self.is_current()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self
            .thread
            .as_ref()
            .and_then(|thread| thread.thread().name());
        f.debug_struct("EventLoop")
            .field("thread", &name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "event_loop_test.rs"]
mod tests;
