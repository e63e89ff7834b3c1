//! The host's ends of the channels.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use rustix::io::{FdFlags, fcntl_setfd};

use super::supervise::Event;
use crate::job::Message;

/// The streams whose bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    Files,
}

/// One channel: the lab's end of the socket pair, and the other end until QEMU has inherited it, or until it is connected
/// with a guest.
#[derive(Debug)]
pub(crate) struct Channel {
    pub name: &'static str,
    pub ours: UnixStream,
    theirs: Option<UnixStream>,
}

impl Channel {
    pub fn new(name: &'static str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // QEMU is to inherit it.
        fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
        Ok(Self {
            name,
            ours,
            theirs: Some(theirs),
        })
    }

    /// The descriptor number of QEMU's end, for its command line; -1 after the hand-over.
    pub fn fd(&self) -> RawFd {
        self.theirs.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Closes this process's copy of QEMU's end, so that reads end when QEMU ends.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }

    /// The other end, for this process itself.
    pub fn take_theirs(&mut self) -> Option<UnixStream> {
        self.theirs.take()
    }
}

/// Starts a thread that copies a stream to its sink and reports the length of every piece. After a failed write
/// it only reads the stream, because L1 waits until it has been read.
pub(super) fn pump(
    mut from: UnixStream,
    mut to: Box<dyn Write + Send>,
    stream: Stream,
    events: Sender<Event>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        let mut open = true;
        while let Ok(length @ 1..) = from.read(&mut piece) {
            open = open
                && to
                    .write_all(&piece[..length])
                    .and_then(|()| to.flush())
                    .is_ok();
            if events.send(Event::Bytes(stream, length as u64)).is_err() {
                return;
            }
        }
    })
}

/// Starts a thread that reads a Linux' messages, each one line, and shows them to `said`.
pub(super) fn listen(
    mut from: UnixStream,
    events: Sender<Event>,
    said: fn(&Message),
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut line = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            line.extend_from_slice(&piece[..length]);
            while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                // A line that is no message counts as nothing.
                if let Ok(message) = serde_json::from_slice::<Message>(&line[..end]) {
                    said(&message);
                    let _ = events.send(Event::Said(message));
                }
                line.drain(..=end);
            }
        }
    })
}

/// Starts a thread that copies the program's standard input to L1 until either ends. The end is passed on by
/// shutting down one direction, while another handle keeps the socket open. The thread is never joined: a read
/// of a terminal or an idle pipe cannot be cancelled.
pub(super) fn feed(mut from: Box<dyn Read + Send>, mut to: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
