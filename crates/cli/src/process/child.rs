//! A child process in its own process group, and its output streams, which are read without blocking.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The longest mark that [`RunningProgram::until`](super::RunningProgram::until) finds if it is printed in two pieces.
pub(super) const LONGEST_MARK: usize = 64;
/// How often limits are looked at while nothing is printed.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    /// Its standard output.
    pub(crate) output: Vec<u8>,
    /// Its standard error.
    pub(crate) errors: Vec<u8>,
    /// How it ended.
    pub(crate) end: ProgramEnd,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramEnd {
    /// By itself.
    Exited(ExitStatus),
    /// All that was wanted was printed, and the program lived on until it was killed.
    Lingered,
    /// It ran out of its time.
    TimeLimit,
    /// It is a VMM, and its guest spun.
    Spun,
    /// It printed more than is kept.
    TooMuch,
    /// The command is to end: by a signal, or at its time limit.
    Stopped,
}

/// The program and the group that was made for it, which is killed when this is dropped: nothing of the program lives on,
/// whatever happens to the command.
pub(super) struct ProcessGroup(pub(super) Child);

impl ProcessGroup {
    /// Whether the program has exited. It is not waited for, so its number stays its own until the group is killed.
    pub(super) fn has_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.0)), options)?;
        Ok(ended.is_some())
    }

    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        // The child has not been waited for, so the number is that of the group made for it.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        self.0.wait()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // A child that was waited for has a status now, and its group was killed.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // A failure of the wait cannot be reported.
            let _ = self.kill();
        }
    }
}

/// Waits until a stream has something or a moment has passed.
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

/// One of the program's streams, which is never waited for.
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

    /// Reads what is there, and no more than is kept.
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
}

/// Where a program's output has this mark.
pub(crate) fn find(output: &[u8], mark: &str) -> Option<usize> {
    let windows = &mut output.windows(mark.len());
    windows.position(|window| window == mark.as_bytes())
}
