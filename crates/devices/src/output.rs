//! What a guest prints, on its way to a descriptor of the host.
//!
//! Devices put it into a bounded buffer and never wait: a reader that stalls, such as a pager or a full pipe, would stop the vCPU and
//! hold its device's locks. A thread, `output`, takes it from there and writes it. While the buffer is full, a serial port is busy,
//! and a virtio console leaves the driver's buffers unused, so that no byte is lost of a guest that looks.

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

/// From how many bytes on the buffer is full: as many as the longest buffer of a console has.
pub(crate) const FULL: usize = 1 << 20;
/// How many bytes there is room for on top of that: a driver looks once at a port for 16 bytes, on any vCPU.
const SPARE: usize = 4096;
/// The most bytes of one write.
const PIECE: usize = 64 << 10;
/// How often [`Output::drain`] asks whether it goes on.
const LOOK: Duration = Duration::from_millis(20);

/// The output of a guest. Its devices and the program that runs it have clones of it.
#[derive(Clone)]
pub struct Output(Arc<Owner>);

/// Ends the thread, once it has written everything, when the last clone is dropped.
struct Owner(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signalled when there are bytes to write, and when some were written.
    changed: Condvar,
    /// Whether the buffer is full.
    full: AtomicBool,
}

/// Called when there is room again.
type OnRoom = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    /// How many bytes the thread writes now.
    under_way: usize,
    /// Whether the thread waits for bytes.
    idle: bool,
    /// Whether a device found no room.
    refused: bool,
    on_room: Vec<OnRoom>,
    /// Why nothing more is written.
    failed: Option<io::ErrorKind>,
    /// Bytes that were dropped.
    lost: u64,
    /// Whether no device prints any more.
    ended: bool,
}

impl State {
    fn len(&self) -> usize {
        self.bytes.len() + self.under_way
    }
}

impl Output {
    /// Output to this descriptor, which may be non-blocking.
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
        // The thread is never joined: its reader may never read.
        thread::spawn(ThreadKind::Device, "output", move || {
            while let Some(piece) = theirs.next() {
                theirs.written(&piece, write(&to, &piece));
            }
        })?;
        Ok(Self(Arc::new(Owner(shared))))
    }

    /// Output to this process' standard output.
    ///
    /// # Errors
    ///
    /// If the process cannot have another descriptor or thread.
    pub fn stdout() -> io::Result<Self> {
        Self::new(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Calls `call` on the output's thread when there is room again for what found none.
    pub fn on_room(&self, call: impl Fn() + Send + Sync + 'static) {
        self.shared().lock().on_room.push(Arc::new(call));
    }

    /// Whether the buffer is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        // A caller that sees it full is notified under the lock when it no longer is.
        self.shared().full.load(Ordering::Relaxed)
    }

    /// Prints all of these bytes, at most a MiB, if there is room for them. If there is not, [`on_room`](Self::on_room) tells when to
    /// offer them again.
    pub fn offer(&self, bytes: &[u8]) -> bool {
        let mut state = self.shared().lock();
        // What comes after an error needs no room.
        let fits = state.len() + bytes.len() <= FULL || state.failed.is_some();
        match fits {
            true => self.shared().add(&mut state, bytes),
            false => state.refused = true,
        }
        fits
    }

    /// Prints a byte of a guest that does not wait: if it has not looked whether the buffer [is full](Self::is_full), it may be lost.
    pub fn push(&self, byte: u8) {
        let mut state = self.shared().lock();
        if state.len() < FULL + SPARE {
            self.shared().add(&mut state, &[byte]);
        } else {
            state.lost += 1;
        }
    }

    /// Why nothing more is written, if so.
    pub fn failed(&self) -> Option<io::ErrorKind> {
        self.shared().lock().failed
    }

    /// Waits until everything is written, or cannot be, or `go_on` returns false. Returns the number of dropped
    /// bytes.
    pub fn drain(&self, mut go_on: impl FnMut() -> bool) -> u64 {
        loop {
            // Without the lock: it may ask for the output's state.
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
        // No system call unless the thread sleeps.
        if std::mem::take(&mut state.idle) {
            self.changed.notify_all();
        }
    }

    /// Waits for bytes, and takes the next ones; `None` if none will come.
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

    /// Counts what was written or dropped, and notifies the devices that there is room.
    fn written(&self, piece: &[u8], result: Result<(), WriteError>) {
        let mut state = self.lock();
        state.under_way = 0;
        if let Err(WriteError { written, kind }) = result {
            state.failed = Some(kind);
            state.lost += (piece.len() - written + state.bytes.len()) as u64;
            state.bytes.clear();
        }
        self.changed.notify_all();
        // Half of the buffer, so that a device does not stop again at once.
        if !state.refused || state.len() > FULL / 2 {
            return;
        }
        state.refused = false;
        self.full.store(false, Ordering::Relaxed);
        let calls = state.on_room.clone();
        // A device that is called may print.
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
