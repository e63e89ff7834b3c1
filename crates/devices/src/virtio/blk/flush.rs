//! Flushes what was written to a disk to its storage, on a thread of the disk. A flush takes milliseconds, in which the
//! queue serves other requests; requests that arrive during one flush share the next one.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::virtio::request::{Pending, Writable};
use vmbell::sync::{Condvar, Mutex, MutexGuard};
use vmbell::thread::{ThreadKind, spawn};

/// The thread that flushes. It ends when the flusher is dropped.
pub(super) struct Flusher {
    requests: Arc<Requests>,
    thread: Option<JoinHandle<()>>,
}

/// The requests that wait for a flush. Between two resets there are at most as many as the queue has descriptors.
#[derive(Default)]
struct Requests {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pending: Vec<Pending>,
    ends: bool,
}

impl Flusher {
    /// Starts the thread. It calls `flush`, and answers each request with the function that `flush` returns.
    ///
    /// # Errors
    ///
    /// If the process cannot have more threads.
    pub(super) fn start<A>(flush: impl Fn() -> A + Send + 'static) -> io::Result<Self>
    where
        A: FnOnce(Writable<'_>) -> usize + Copy + Send + 'static,
    {
        let requests = Arc::new(Requests::default());
        let theirs = Arc::clone(&requests);
        let thread = spawn(ThreadKind::Device, "vmbell-flush", move || {
            while let Some(pending) = theirs.take() {
                let answer = flush();
                for request in pending {
                    request.complete(answer);
                }
            }
        })?;
        Ok(Self {
            requests,
            thread: Some(thread),
        })
    }

    /// Completes a request when all earlier writes are on the storage.
    pub(super) fn complete_later(&self, request: Pending) {
        self.requests.lock().pending.push(request);
        self.requests.changed.notify_one();
    }

    /// Drops the waiting requests, which are from before a reset. Otherwise a driver could pile up any number of them
    /// by resets during one flush.
    pub(super) fn forget(&self) {
        self.requests.lock().pending.clear();
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Waits for requests and takes all of them; `None` when the thread must end.
    fn take(&self) -> Option<Vec<Pending>> {
        let idle = |waiting: &mut Waiting| waiting.pending.is_empty() && !waiting.ends;
        let waited = self.changed.wait_while(self.lock(), idle);
        let mut waiting = waited;
        (!waiting.ends).then(|| std::mem::take(&mut waiting.pending))
    }
}

impl Drop for Flusher {
    /// Waits for the flush that is running.
    fn drop(&mut self) {
        self.requests.lock().ends = true;
        self.requests.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.requests.lock().pending.len();
        f.debug_struct("Flusher")
            .field("pending", &pending)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "flush_test.rs"]
mod tests;
