//! A child process in its own process group, and its output streams, read without blocking.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The length of the longest mark that [`RunningProgram::until`](super::RunningProgram::until) finds if it arrives in
/// two pieces.
pub(super) const LONGEST_MARK: usize = 64;
/// How often limits are checked while nothing is printed.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    /// The program's standard output.
    pub(crate) output: Vec<u8>,
    /// The program's standard error.
    pub(crate) errors: Vec<u8>,
    /// How the program ended.
    pub(crate) end: ProgramEnd,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// The program ended by itself.
    Exited(ExitStatus),
    /// The program printed everything that was expected, but had to be killed.
    Lingered,
    /// The program exceeded its time limit.
    TimeLimit,
    /// The program is a VMM, and its guest kept spinning.
    Spun,
    /// The program printed more than is kept.
    TooMuch,
    /// The command itself must end: by a signal, or at its time limit.
    Stopped,
}

/// The program in its own process group. The group is killed on drop, so nothing of the program outlives the command.
pub(super) struct ProcessGroup(pub(super) Child);

impl ProcessGroup {
    /// Whether the program has exited. It is not reaped, so its PID is not reused before the group is killed.
    pub(super) fn has_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.0)), options)?;
        Ok(ended.is_some())
    }

    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        // The child has not been reaped, so the PID still names its group.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        self.0.wait()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // A reaped child has a status, and its group was killed.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // A failed wait cannot be reported.
            let _ = self.kill();
        }
    }
}

/// Waits for output on a stream, or for a moment.
pub(super) fn wait(streams: &[OutputStream; 2]) -> io::Result<()> {
    let open = streams.iter().filter_map(OutputStream::fd);
    let mut polled: Vec<PollFd<'_>> = open
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&LOOK)) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// One of the program's streams, read without blocking.
pub(super) struct OutputStream {
    from: Option<File>,
    pub(super) kept: Vec<u8>,
    most: usize,
    /// Whether there was more than is kept.
    pub(super) is_cut: bool,
}

impl OutputStream {
    pub(super) fn of(from: Option<impl Into<OwnedFd>>, most: usize) -> io::Result<Self> {
        let from = from.map(|from| File::from(from.into()));
        if let Some(from) = &from {
            fcntl_setfl(from, OFlags::NONBLOCK)?;
        }
        Ok(Self {
            from,
            kept: Vec::new(),
            most,
            is_cut: false,
        })
    }

    /// The descriptor, until the stream has ended.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available, up to the limit.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        while let Some(from) = self.from.as_mut().filter(|_| !self.is_cut) {
            match from.read(&mut chunk) {
                Ok(0) => self.from = None,
                Ok(count) => {
                    let room = self.most - self.kept.len();
                    self.kept.extend_from_slice(&chunk[..count.min(room)]);
                    self.is_cut = count > room;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets the complete lines.
    pub(super) fn forget_lines(&mut self) {
        let end = self.kept.iter().rposition(|byte| *byte == b'\n');
        self.kept.drain(..end.map_or(0, |end| end + 1));
    }
}

/// The offset of this mark in a program's output.
pub(crate) fn find(output: &[u8], mark: &str) -> Option<usize> {
    let windows = &mut output.windows(mark.len());
    windows.position(|window| window == mark.as_bytes())
}
