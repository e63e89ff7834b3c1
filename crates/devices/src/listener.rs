//! A thread that an eventfd wakes: a consumer of doorbells.
//! The thread does the work of a wake-up in pieces, and checks between them whether it must stop. Every signal of a
//! doorbell needs a wake-up, so the thread sleeps with a single system call and is not an
//! [`EventLoop`](vmbell::thread::EventLoop). The call is `read`, or `epoll_pwait2` if the thread may also wake after a
//! given time. `epoll_pwait2` takes 170 instructions more for each wake-up, 0.8 % of a virtqueue's round trip with
//! ioeventfd and irqfd on KVM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;
use std::time::Duration;

use vmbell::eventfd::{EventFd, Signaller, Signals};
use vmbell::thread::{ThreadKind, spawn};

/// What the thread does after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Calls again: there is more work.
    More,
    /// Sleeps until the next signal.
    Sleep,
    /// Sleeps until the next signal, but no longer than this, and then calls again.
    Nap(Duration),
}

impl Rest {
    /// Converts the answer of a callback that only says whether there is more work.
    fn after(more: bool) -> Self {
        if more { Self::More } else { Self::Sleep }
    }
}

/// A thread that waits for the signals of its eventfd until the listener is dropped.
#[derive(Debug)]
pub struct Listener {
    event: Arc<EventFd>,
    stop: Arc<AtomicBool>,
    signaller: &'static Signaller,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts a thread that runs `setup` once, and then calls `heard` for each signal, or for several signals at once.
    /// As long as `heard` returns that there is more work, the thread calls it again before it sleeps.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or the kernel has no asynchronous I/O.
    pub fn start(
        setup: impl FnOnce() + Send + 'static,
        mut heard: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        // The eventfd blocks, so that the thread can sleep in `read`.
        let event = Arc::new(EventFd::new(0)?);
        let theirs = Arc::clone(&event);
        let heard = move || Rest::after(heard());
        Self::start_with(event, setup, move |_| read(&theirs), heard)
    }

    /// Like [`start`](Self::start), for a `heard` that says how long to sleep. The eventfd's count grows with each
    /// signal.
    pub(crate) fn start_resting(
        setup: impl FnOnce() + Send + 'static,
        heard: impl FnMut() -> Rest + Send + 'static,
    ) -> io::Result<Self> {
        let event = Arc::new(EventFd::new(0)?);
        let signals = Signals::of(&event)?;
        // Fails here, and not on the thread, if the kernel does not have or allow the system call.
        signals.wait(Some(Duration::ZERO))?;
        Self::start_with(
            event,
            setup,
            move |longest| signals.wait(longest).is_ok(),
            heard,
        )
    }

    /// Starts the thread. `sleep` waits until the next signal, or for at most the given time; it returns false on an
    /// error.
    fn start_with(
        event: Arc<EventFd>,
        setup: impl FnOnce() + Send + 'static,
        sleep: impl Fn(Option<Duration>) -> bool + Send + 'static,
        mut heard: impl FnMut() -> Rest + Send + 'static,
    ) -> io::Result<Self> {
        let signaller = Signaller::of_process()?;
        let stop = Arc::new(AtomicBool::new(false));
        let their_stop = Arc::clone(&stop);
        let thread = spawn(ThreadKind::Device, "vmbell-listener", move || {
            setup();
            let mut rest = Rest::Sleep;
            loop {
                let is_awake = match rest {
                    Rest::More => true,
                    Rest::Sleep => sleep(None),
                    Rest::Nap(longest) => sleep(Some(longest)),
                };
                if !is_awake || their_stop.load(Acquire) {
                    return;
                }
                rest = heard();
            }
        })?;
        Ok(Self {
            event,
            stop,
            signaller,
            thread: Some(thread),
        })
    }

    /// The eventfd, to be registered.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Signals the eventfd, even if the guest has filled it.
    pub fn signal(&self) {
        self.signaller.signal(&self.event);
    }
}

/// Sleeps until the count is above 0, and resets it. Returns false on an error.
fn read(event: &EventFd) -> bool {
    loop {
        match event.read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.is_ok(),
        }
    }
}

impl Drop for Listener {
    /// Ends the thread after the current call of `heard`. Does not wait if called from `heard`.
    fn drop(&mut self) {
        self.stop.store(true, Release);
        // The thread wakes, whatever the count is.
        self.signal();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "listener_test.rs"]
mod tests;
