//! The host's ends of the channels to a Linux.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::job::InitMessage;

/// The streams whose bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramStream {
    Stdout,
    Stderr,
    Files,
}

/// A message from a channel's thread to the thread that waits.
#[derive(Debug)]
pub(crate) enum BootEvent {
    /// This number of bytes of a stream was read.
    Bytes(ProgramStream, u64),
    /// L1 has sent a message.
    Said(InitMessage),
    /// The console shows that L1's kernel panicked.
    Panicked,
    /// The VMM has ended, and used this much CPU time.
    Ended(Duration),
    /// A stream's sink failed, and the rest of the stream is dropped.
    Unwritten(io::Error),
    /// The reader of this stream of the program has gone.
    Unread(ProgramStream),
    /// The host of this Linux wants the program to end.
    End,
    /// The host of this Linux wants the program to be killed.
    Stop,
}

/// One channel: the lab's end, and the other end until QEMU inherits it or it is connected to a guest.
#[derive(Debug)]
pub(crate) struct Channel {
    pub name: &'static str,
    ours: Ours,
    theirs: Option<OwnedFd>,
}

/// The lab's end of a channel.
#[derive(Debug)]
enum Ours {
    /// One of a pair of connected sockets.
    Socket(UnixStream),
    /// Memory to which QEMU writes. It is never full, so QEMU never waits, which the guest would notice.
    File(File),
}

impl Channel {
    /// Makes a channel in both directions.
    pub fn new(name: &'static str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        Self::with(name, Ours::Socket(ours), theirs.into())
    }

    /// Makes a channel from the guest to the lab. The guest does not notice when the lab reads.
    pub fn unnoticed(name: &'static str) -> io::Result<Self> {
        let file = File::from(memfd_create("vmbell-output", MemfdFlags::CLOEXEC)?);
        let theirs = file.try_clone()?.into();
        Self::with(name, Ours::File(file), theirs)
    }

    fn with(name: &'static str, ours: Ours, theirs: OwnedFd) -> io::Result<Self> {
        // QEMU has to inherit this end.
        fcntl_setfd(&theirs, FdFlags::empty())?;
        Ok(Self {
            name,
            ours,
            theirs: Some(theirs),
        })
    }

    /// Returns the argument of `-chardev` that describes QEMU's end.
    pub fn chardev(&self) -> String {
        let (name, fd) = (
            self.name,
            self.theirs.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        );
        match self.ours {
            Ours::Socket(_) => format!("socket,id={name},fd={fd}"),
            Ours::File(_) => format!("file,id={name},path=/proc/self/fd/{fd},append=on"),
        }
    }

    /// Closes this process's copy of QEMU's end, so that reads end when QEMU ends.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }

    /// Takes the other end, for use by this process itself; an emulator does not inherit it.
    pub fn take_theirs(&mut self) -> io::Result<Option<UnixStream>> {
        if let Some(theirs) = &self.theirs {
            fcntl_setfd(theirs, FdFlags::CLOEXEC)?;
        }
        Ok(self.theirs.take().map(UnixStream::from))
    }

    /// Returns the lab's end of a channel in both directions.
    pub fn socket(&self) -> io::Result<UnixStream> {
        match &self.ours {
            Ours::Socket(socket) => socket.try_clone(),
            Ours::File(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns a reader of what the guest sends. The reader reaches its end once QEMU has ended and `ended` is set.
    pub fn into_reader(self, ended: Arc<AtomicBool>) -> Box<dyn Read + Send> {
        match self.ours {
            Ours::Socket(socket) => Box::new(socket),
            Ours::File(file) => Box::new(Tail {
                file,
                read: 0,
                ended,
            }),
        }
    }
}

/// How long a reader waits for a file to grow.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a growing file, and frees the memory of what was read.
struct Tail {
    file: File,
    read: u64,
    ended: Arc<AtomicBool>,
}

impl Read for Tail {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            // Loaded before reading, so that what QEMU wrote before its end is still read.
            let ended = self.ended.load(Ordering::Acquire);
            let length = self.file.read_at(to, self.read)?;
            if length > 0 {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&self.file, punch, self.read, length as u64)?;
                self.read += length as u64;
            }
            if length > 0 || ended {
                return Ok(length);
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Starts a thread that copies a stream to its sink and reports the length of each piece. After a failed write, which
/// is also reported, it only reads, because L1 waits until its output is read. With `tells_unread`, L1 is told about
/// the failure.
pub(super) fn pump(
    mut from: Box<dyn Read + Send>,
    mut to: Box<dyn Write + Send>,
    stream: ProgramStream,
    events: Sender<BootEvent>,
    tells_unread: bool,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        let mut open = true;
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if open && let Err(error) = to.write_all(&piece[..length]).and_then(|()| to.flush()) {
                open = false;
                let _ = events.send(BootEvent::Unwritten(error));
                if tells_unread {
                    let _ = events.send(BootEvent::Unread(stream));
                }
            }
            if events
                .send(BootEvent::Bytes(stream, length as u64))
                .is_err()
            {
                return;
            }
        }
    })
}

/// The longest line of a Linux in bytes. A report has a few kilobytes.
const LINE: usize = 64 << 20;

/// Takes lines out of a stream of bytes. A line that is longer than `limit` is dropped.
struct LineReader {
    line: Vec<u8>,
    limit: usize,
    is_dropped: bool,
}

impl LineReader {
    const fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            limit,
            is_dropped: false,
        }
    }

    /// Passes on each line that ends in these bytes.
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            if self.line.len() + text.len() > self.limit {
                self.is_dropped = true;
                self.line = Vec::new();
            }
            if !self.is_dropped {
                self.line.extend_from_slice(text);
            }
            if ends {
                if !self.is_dropped {
                    take(&self.line);
                }
                self.line.clear();
                self.is_dropped = false;
            }
        }
    }
}

/// Starts a thread that reads the messages of a Linux, one per line, and passes each to `said` and to `events`.
pub(super) fn listen(
    mut from: UnixStream,
    events: Sender<BootEvent>,
    said: fn(&InitMessage),
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut lines = LineReader::new(LINE);
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            lines.push(&piece[..length], |line| {
                // A line that is not a message is ignored.
                if let Ok(message) = serde_json::from_slice::<InitMessage>(line) {
                    said(&message);
                    let _ = events.send(BootEvent::Said(message));
                }
            });
        }
    })
}

/// Starts a thread that copies the program's standard input to L1 until either side ends. The end of the input is
/// passed on by shutting down one direction, because another handle keeps the socket open. The thread is never joined:
/// a read from a terminal or an idle pipe cannot be cancelled.
pub(super) fn feed(mut from: Box<dyn Read + Send>, mut to: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_takes_limited_memory_and_the_next_line_is_read() {
        let stream = b"one\ntwo\n123456\n1234567\nthree\n\nlast";
        for size in 1..=stream.len() {
            let mut reader = LineReader::new(6);
            let mut lines = Vec::new();
            for piece in stream.chunks(size) {
                reader.push(piece, |line| lines.push(line.to_vec()));
                assert!(reader.line.len() <= 6);
            }
            let read: [&[u8]; 5] = [b"one", b"two", b"123456", b"three", b""];
            assert_eq!(lines, read, "{size}");
        }
        let mut reader = LineReader::new(6);
        for _ in 0..100 {
            reader.push(b"endless", |line| panic!("{line:?}"));
            assert_eq!(reader.line.capacity(), 0);
        }
    }

    #[test]
    fn what_is_written_to_memory_is_read_once_and_takes_none_afterwards() {
        let mut channel = Channel::unnoticed("lab.stdout").unwrap();
        let mut theirs = File::from(channel.theirs.take().unwrap());
        let Ours::File(file) = &channel.ours else {
            unreachable!()
        };
        let file = file.try_clone().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let mut reader = channel.into_reader(Arc::clone(&ended));
        let written: Vec<u8> = (0..1_000_000_u32)
            .map(|index| index.to_le_bytes()[1])
            .collect();
        let writes = written.clone();
        let writer = thread::spawn(move || {
            for piece in writes.chunks(70_000) {
                theirs.write_all(piece).unwrap();
            }
            ended.store(true, Ordering::Release);
        });
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writer.join().unwrap();
        assert!(read == written);
        let allocated = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
        assert!(allocated <= 8192, "{allocated}");
    }
}
