//! Bounds how long requests to a back end of vhost-user take together, on a thread of its own.
//!
//! The `vhost` crate repeats a read or write that has timed out or was interrupted (0.18.0,
//! `vhost_user/connection.rs`, `Error::SocketRetry`), so SO_RCVTIMEO does not end a request. When the time is over, this
//! shuts the socket down: then every read and write of it ends, also that of an answer that comes a byte at a time.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use vmbell::thread::{self, ThreadKind};

/// A connection, and the thread that shuts it down.
#[derive(Debug)]
pub(super) struct TimeLimit {
    limit: Duration,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When the requests that are under way have to be answered.
    deadline: Option<Instant>,
    has_expired: bool,
    /// The thread has to end.
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    /// Waits until the time is over, and returns true, or until no more requests come.
    fn expires(&self) -> bool {
        let mut state = self.lock();
        while !state.over {
            state = match state.deadline {
                None => self.changed.wait(state),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.has_expired = true;
                        return true;
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited.map(|(state, _)| state).map_err(|poisoned| {
                        let (state, _) = poisoned.into_inner();
                        PoisonError::new(state)
                    })
                }
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
        false
    }
}

impl TimeLimit {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn new(socket: &UnixStream, limit: Duration) -> io::Result<Self> {
        let (socket, shared) = (socket.try_clone()?, Arc::<Shared>::default());
        let theirs = Arc::clone(&shared);
        let end = move || {
            if theirs.expires() {
                // It fails only if the other side has hung up.
                let _ = socket.shutdown(Shutdown::Both);
            }
        };
        let thread = thread::spawn(ThreadKind::Device, "vmbell-limit", end)?;
        Ok(Self {
            limit,
            shared,
            thread: Some(thread),
        })
    }

    /// Makes requests, all of which together may take the time. One caller at a time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] if the time was over; all later requests fail, too.
    pub(super) fn apply<T>(&self, requests: impl FnOnce() -> vhost::Result<T>) -> vhost::Result<T> {
        self.shared
            .set(|state| state.deadline = Some(Instant::now() + self.limit));
        let result = requests();
        self.shared.set(|state| state.deadline = None);
        result.map_err(|error| {
            if !self.has_expired() {
                return error;
            }
            let text = format!("it did not answer within {:?}", self.limit);
            vhost::Error::IOError(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Whether the time was over, so that the connection is shut down.
    pub(super) fn has_expired(&self) -> bool {
        self.shared.lock().has_expired
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.shared.set(|state| state.over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn pair(limit: Duration) -> (UnixStream, UnixStream, TimeLimit) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let limit = TimeLimit::new(&ours, limit).unwrap();
        (ours, theirs, limit)
    }

    #[test]
    fn requests_to_a_back_end_that_reads_nothing_end() {
        let (mut ours, _theirs, limit) = pair(Duration::from_millis(50));
        let mut flood = || ours.write_all(&vec![0; 64 << 20]);
        let error = limit.apply(|| flood().map_err(vhost::Error::IOError));
        let Err(vhost::Error::IOError(error)) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(limit.has_expired());
    }

    #[test]
    fn answers_in_time_leave_the_connection_as_it_is() {
        let (mut ours, mut theirs, limit) = pair(Duration::from_secs(600));
        for _ in 0..3 {
            theirs.write_all(b"answer").unwrap();
            let mut answer = [0; 6];
            let read = || ours.read_exact(&mut answer).map_err(vhost::Error::IOError);
            limit.apply(read).unwrap();
        }
        assert!(!limit.has_expired());
    }

    #[test]
    fn error_in_time_stays_what_it_is() {
        let (_ours, _theirs, limit) = pair(Duration::from_secs(600));
        let result = limit.apply(|| Err::<(), _>(vhost::Error::InvalidQueue));
        assert!(matches!(result, Err(vhost::Error::InvalidQueue)));
    }
}
