//! The host's ends of the virtio-serial ports.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use rustix::io::{FdFlags, fcntl_setfd};

use super::supervise::Event;
use crate::job::Report;

/// Which of the counted streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
    Files,
}

/// One port: our end, and QEMU's until it has been handed over.
#[derive(Debug)]
pub(super) struct Channel {
    pub name: &'static str,
    pub ours: UnixStream,
    theirs: Option<UnixStream>,
}

impl Channel {
    pub fn new(name: &'static str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // The child is to inherit it.
        fcntl_setfd(theirs.as_fd(), FdFlags::empty())?;
        Ok(Self {
            name,
            ours,
            theirs: Some(theirs),
        })
    }

    /// The number that QEMU is told.
    pub fn fd(&self) -> RawFd {
        self.theirs.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Forgets QEMU's end, so that its death is the end of ours.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }
}

/// Copies a stream to its sink and reports every piece. A sink that fails is written no more, but
/// the stream is still read: L1 waits for that.
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

/// Reads the report's one line.
pub(super) fn listen(mut from: UnixStream, events: Sender<Event>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut line = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            line.extend_from_slice(&piece[..length]);
            if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                // Anything else than a report is as good as none.
                if let Ok(report) = serde_json::from_slice::<Report>(&line[..end]) {
                    let _ = events.send(Event::Report(report));
                }
                return;
            }
        }
    })
}

/// Feeds our standard input to L1 until either ends; the end is passed on by shutting down one
/// direction, while another handle keeps the socket open. Never joined: a read of a terminal or an
/// idle pipe cannot be called off.
pub(super) fn feed(mut to: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
