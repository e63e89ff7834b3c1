//! Carries what a guest prints to a descriptor of the host.
//!
//! Devices put the bytes into a bounded buffer and never wait: a reader that stalls, such as a pager or a full pipe,
//! would stop the vCPU while it holds its device's locks. A thread, `output`, takes the bytes from the buffer and
//! writes them. While the buffer is full, a serial port is busy, and a virtio console leaves the driver's buffers
//! unused, so that a guest that checks for room loses no byte.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use vmbell::sync::{Condvar, Mutex, MutexGuard};
use vmbell::thread::{self, ThreadKind};

/// The number of bytes at which the buffer is full: the length of the longest buffer of a console.
pub(crate) const FULL: usize = 1 << 20;
/// Room beyond [`FULL`]: a driver checks once whether a port is busy and then writes up to 16 bytes, on any vCPU.
const SPARE: usize = 4096;
/// The maximum number of bytes of one write.
const PIECE: usize = 64 << 10;
/// The interval at which [`Output::drain`] checks whether to continue.
const LOOK: Duration = Duration::from_millis(20);

/// The output of a guest. Its devices and the program that runs the guest have clones.
#[derive(Clone)]
pub struct Output(Arc<Owner>);

/// When the last clone is dropped, ends the thread once it has written everything.
struct Owner(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signalled when there are bytes to write, and when some have been written.
    changed: Condvar,
    /// Whether the buffer is full.
    full: AtomicBool,
}

/// Called when there is room again.
type OnRoom = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// How many bytes the thread is writing now.
    under_way: usize,
    /// Whether the thread waits for bytes.
    idle: bool,
    /// Whether a device has found no room.
    refused: bool,
    on_room: Vec<OnRoom>,
    /// The error after which nothing more is written.
    failed: Option<io::ErrorKind>,
    /// The number of dropped bytes.
    lost: u64,
    /// Whether no device can print any more.
    ended: bool,
}

impl State {
    fn len(&self) -> usize {
        self.bytes.len() + self.under_way
    }
}

impl Output {
    /// Creates an output to this descriptor, which may be non-blocking.
    ///
    /// # Errors
    ///
    /// If the process cannot have another thread.
    pub fn new(to: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            full: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        // The thread is never joined: the reader of its output may never read.
        thread::spawn(ThreadKind::Device, "output", move || {
            while let Some(piece) = theirs.next() {
                theirs.written(&piece, write(&to, &piece));
            }
        })?;
        Ok(Self(Arc::new(Owner(shared))))
    }

    /// Creates an output to this process's standard output.
    ///
    /// # Errors
    ///
    /// If the process cannot have another descriptor or thread.
    pub fn stdout() -> io::Result<Self> {
        Self::new(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Sets a function that the output's thread calls when there is room again after a device found none.
    pub fn on_room(&self, call: impl Fn() + Send + Sync + 'static) {
        self.shared().lock().on_room.push(Arc::new(call));
    }

    /// Whether the buffer is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        // Relaxed is enough: `full` is set under the lock together with `refused`, so a caller that sees a full buffer
        // is notified when there is room again.
        self.shared().full.load(Ordering::Relaxed)
    }

    /// Prints all of these bytes, at most a MiB, if there is room for them. If there is no room, returns false, and
    /// [`on_room`](Self::on_room) tells when to offer them again.
    pub fn offer(&self, bytes: &[u8]) -> bool {
        let mut state = self.shared().lock();
        // After an error, bytes need no room.
        let fits = state.len() + bytes.len() <= FULL || state.failed.is_some();
        match fits {
            true => self.shared().add(&mut state, bytes),
            false => state.refused = true,
        }
        fits
    }

    /// Prints a byte of a guest that does not wait for room. The byte may be lost if the guest did not check whether
    /// the buffer [is full](Self::is_full).
    pub fn push(&self, byte: u8) {
        let mut state = self.shared().lock();
        if state.len() < FULL + SPARE {
            self.shared().add(&mut state, &[byte]);
        } else {
            state.lost += 1;
        }
    }

    /// The error after which nothing more is written, if there was one.
    pub fn failed(&self) -> Option<io::ErrorKind> {
        self.shared().lock().failed
    }

    /// Waits until everything is written or cannot be written, or `go_on` returns false. Returns the number of dropped
    /// bytes.
    pub fn drain(&self, mut go_on: impl FnMut() -> bool) -> u64 {
        loop {
            // Called without the lock, because the callback may ask for the output's state.
            let goes_on = go_on();
            let state = self.shared().lock();
            if state.len() == 0 || !goes_on {
                return state.lost + state.len() as u64;
            }
            drop(self.shared().changed.wait_timeout(state, LOOK));
        }
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn add(&self, state: &mut State, bytes: &[u8]) {
        if state.failed.is_some() {
            state.lost += bytes.len() as u64;
            return;
        }
        state.bytes.extend(bytes);
        if state.len() >= FULL {
            state.refused = true;
            self.full.store(true, Ordering::Relaxed);
        }
        // A system call is needed only if the thread sleeps.
        if std::mem::take(&mut state.idle) {
            self.changed.notify_all();
        }
    }

    /// Waits for bytes, and takes the next ones; `None` if no more will come.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        while state.bytes.is_empty() {
            if state.ended || state.failed.is_some() {
                return None;
            }
            state.idle = true;
            state = self.changed.wait(state);
        }
        let length = state.bytes.len().min(PIECE);
        state.under_way = length;
        Some(state.bytes.drain(..length).collect())
    }

    /// Counts the bytes that were written or dropped, and notifies the devices if there is room.
    fn written(&self, piece: &[u8], result: Result<(), WriteError>) {
        let mut state = self.lock();
        state.under_way = 0;
        if let Err(WriteError { written, kind }) = result {
            state.failed = Some(kind);
            state.lost += (piece.len() - written + state.bytes.len()) as u64;
            state.bytes.clear();
        }
        self.changed.notify_all();
        // Devices are notified when half of the buffer is free, so that they do not find it full again immediately.
        if !state.refused || state.len() > FULL / 2 {
            return;
        }
        state.refused = false;
        self.full.store(false, Ordering::Relaxed);
        let calls = state.on_room.clone();
        // Unlocked first, because a device's function may print.
        drop(state);
        calls.iter().for_each(|call| call());
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// An error, and how many bytes were written before it.
struct WriteError {
    written: usize,
    kind: io::ErrorKind,
}

fn write(to: &OwnedFd, bytes: &[u8]) -> Result<(), WriteError> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        let wrote = match rustix::io::write(to, rest) {
            Err(rustix::io::Errno::AGAIN) => {
                poll(&mut [PollFd::new(to, PollFlags::OUT)], None).map(|_| 0)
            }
            Ok(0) => Err(rustix::io::Errno::IO),
            wrote => wrote,
        };
        match wrote {
            Ok(more) => written += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let kind = io::Error::from(error).kind();
                return Err(WriteError { written, kind });
            }
        }
    }
    Ok(())
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("full", &self.is_full())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "output_test.rs"]
mod tests;
