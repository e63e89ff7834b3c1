//! Runs one program in a process group of its own, keeps what it prints, and ends it: a VMM of `vmbell bench vmms`, and the other
//! vmbell of `vmbell bench --interleave`.
//!
//! The calling thread waits for output, for the end of the time, and for a signal to the command. Whatever the program
//! does, its group is killed before this returns: one that is done and does not end, one that prints without end and one
//! that hangs are all told apart by their `ProgramEnd`.

pub(crate) mod program;
mod running;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

pub(super) use self::running::{Reached, RunningProgram};
use vmbell_bench::CommandLimit;
use vmbell_lab::spin::Watch;

/// The most bytes that are kept of what a program prints, unless its task says otherwise.
pub(super) const MOST_OUTPUT: usize = 1 << 20;
/// How long a program may live on after the image has said all.
const GRACE: Duration = Duration::from_secs(3);
/// The longest mark that [`ProgramTask::is_complete`] looks for: so much of what was searched is searched again.
const MARK: usize = 64;
/// How often limits are looked at while nothing is printed.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// A program with its arguments and what it may use.
pub(super) struct ProgramTask<'a> {
    /// The program and its arguments.
    pub(super) words: &'a [OsString],
    /// How long it may run.
    pub(super) limit: Duration,
    /// The most bytes that are kept of each of its outputs; one that prints more is ended.
    pub(super) most: usize,
    /// When the command is to end.
    pub(super) stop: &'a CommandLimit,
    /// Whether it is ended if it is a VMM whose guest spins ([`vmbell_lab::spin`]).
    pub(super) ends_if_spinning: bool,
    /// The CPUs that it may use; all that this process may use if there are none.
    pub(super) cpus: &'a [usize],
    /// Whether a piece of its output has the mark after which nothing more is wanted.
    pub(super) is_complete: &'a dyn Fn(&[u8]) -> bool,
}

impl<'a> ProgramTask<'a> {
    /// A program that runs on any CPU, until it ends or one of the limits is reached.
    pub(super) fn new(words: &'a [OsString], limit: Duration, stop: &'a CommandLimit) -> Self {
        Self {
            words,
            limit,
            most: MOST_OUTPUT,
            stop,
            ends_if_spinning: false,
            cpus: &[],
            is_complete: &|_| false,
        }
    }
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    /// Its standard output.
    pub(super) output: Vec<u8>,
    /// Its standard error.
    pub(super) errors: Vec<u8>,
    /// How it ended.
    pub(super) end: ProgramEnd,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
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
struct ProcessGroup(Child);

impl ProcessGroup {
    /// Whether the program has exited. It is not waited for, so its number stays its own until the group is killed.
    fn has_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.0)), options)?;
        Ok(ended.is_some())
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
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

/// Runs the program until it ends or is ended.
pub(super) fn run(task: &ProgramTask<'_>) -> io::Result<ProgramOutput> {
    let mut running = RunningProgram::start(task.words, task.most, task.cpus)?;
    let spins = task.ends_if_spinning.then(|| Watch::start(running.id()));
    let spins = spins.transpose()?;
    let end = watch(task, &running.group, &mut running.streams)?;
    let has_spun = spins.is_some_and(|spins| spins.found());
    running.end(if has_spun {
        Some(ProgramEnd::Spun)
    } else {
        end
    })
}

/// Waits for the program's end, and returns `None`, or for the reason to end it.
fn watch(
    task: &ProgramTask<'_>,
    group: &ProcessGroup,
    streams: &mut [OutputStream; 2],
) -> io::Result<Option<ProgramEnd>> {
    let begun = Instant::now();
    let mut complete: Option<Instant> = None;
    let mut searched = 0;
    loop {
        wait(streams)?;
        for stream in &mut *streams {
            stream.read()?;
        }
        if group.has_exited()? {
            return Ok(None);
        }
        if streams.iter().any(|stream| stream.is_full) {
            return Ok(Some(ProgramEnd::TooMuch));
        }
        if task.stop.stop().is_some() {
            return Ok(Some(ProgramEnd::Stopped));
        }
        let output = &streams[0].kept;
        let unsearched = &output[searched.min(output.len())..];
        if complete.is_none() && (task.is_complete)(unsearched) {
            complete = Some(Instant::now());
        }
        searched = output.len().saturating_sub(MARK);
        if complete.is_some_and(|at| at.elapsed() >= GRACE) {
            return Ok(Some(ProgramEnd::Lingered));
        }
        if begun.elapsed() >= task.limit {
            return Ok(Some(ProgramEnd::TimeLimit));
        }
    }
}

/// Waits until a stream has something or a moment has passed.
fn wait(streams: &[OutputStream; 2]) -> io::Result<()> {
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
struct OutputStream {
    from: Option<Box<dyn ReadableFd>>,
    kept: Vec<u8>,
    most: usize,
    is_full: bool,
}

trait ReadableFd: Read + AsFd {}
impl<T: Read + AsFd> ReadableFd for T {}

impl OutputStream {
    fn of(from: Option<impl ReadableFd + 'static>, most: usize) -> io::Result<Self> {
        if let Some(from) = &from {
            fcntl_setfl(from, OFlags::NONBLOCK)?;
        }
        Ok(Self {
            from: from.map(|from| Box::new(from) as Box<dyn ReadableFd>),
            kept: Vec::new(),
            most,
            is_full: false,
        })
    }

    /// The descriptor, until the stream has ended.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(|from| from.as_fd())
    }

    /// Reads what is there, and no more than is kept.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        while let Some(from) = self.from.as_mut().filter(|_| !self.is_full) {
            match from.read(&mut chunk) {
                Ok(0) => self.from = None,
                Ok(count) => {
                    let count = count.min(self.most - self.kept.len());
                    self.kept.extend_from_slice(&chunk[..count]);
                    self.is_full = self.kept.len() == self.most;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "process_test.rs"]
mod tests;
