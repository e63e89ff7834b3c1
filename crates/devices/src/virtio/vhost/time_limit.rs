//! Limits how long requests to a vhost-user back end take together, with a thread for this limit.
//!
//! The `vhost` crate repeats a read or write that has timed out or was interrupted (0.18.0, `vhost_user/connection.rs`,
//! `Error::SocketRetry`), so SO_RCVTIMEO does not end a request. When the time limit has passed, the thread shuts the
//! socket down. Then every read and write of the socket ends, even if an answer comes a byte at a time.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmbell::sync::{Mutex, MutexGuard};
use vmbell::thread::{EventLoop, ThreadKind, Timer};

/// A connection, and the thread that shuts it down. It is not the thread that waits for the worker: that thread may
/// wait for a vCPU's thread, which waits for an answer.
#[derive(Debug)]
pub(super) struct TimeLimit {
    limit: Duration,
    state: Arc<Mutex<TimeLimitState>>,
    timer: Timer,
    _thread: EventLoop,
}

#[derive(Debug, Default)]
struct TimeLimitState {
    /// The time by which the current requests must be answered.
    deadline: Option<Instant>,
    has_expired: bool,
}

fn lock(state: &Mutex<TimeLimitState>) -> MutexGuard<'_, TimeLimitState> {
    state.lock()
}

impl TimeLimit {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn new(socket: &UnixStream, limit: Duration) -> io::Result<Self> {
        let (socket, state) = (socket.try_clone()?, Arc::<Mutex<TimeLimitState>>::default());
        let thread = EventLoop::new(ThreadKind::Device, "vmbell-limit")?;
        let theirs = Arc::clone(&state);
        let timer = thread.add_timer(move |_| {
            let mut state = lock(&theirs);
            // An expiry can come late, when the next requests have already begun.
            if state.deadline.is_some_and(|end| end <= Instant::now()) {
                state.has_expired = true;
                // The shutdown fails only if the other side has hung up.
                let _ = socket.shutdown(Shutdown::Both);
            }
        })?;
        Ok(Self {
            limit,
            state,
            timer,
            _thread: thread,
        })
    }

    /// Makes requests that must all be answered within one time limit. Only one thread may call this at a time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] if the time limit has passed. All later requests then fail as well.
    pub(super) fn apply<T>(&self, requests: impl FnOnce() -> vhost::Result<T>) -> vhost::Result<T> {
        lock(&self.state).deadline = Some(Instant::now() + self.limit);
        self.timer.set(self.limit);
        let result = requests();
        lock(&self.state).deadline = None;
        self.timer.clear();
        result.map_err(|error| {
            if !self.has_expired() {
                return error;
            }
            let text = format!("it did not answer within {:?}", self.limit);
            vhost::Error::IOError(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Whether the time limit has expired, so that the connection is shut down.
    pub(super) fn has_expired(&self) -> bool {
        lock(&self.state).has_expired
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
