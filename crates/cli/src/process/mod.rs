//! Runs one program in a process group of its own, keeps what it prints, and ends it: a VMM of `vmbell bench vmms`, and the other
//! vmbell of `vmbell bench --interleave`.
//!
//! The calling thread waits for output, for the end of the time, and for a signal to the command. Whatever the program
//! does, its group is killed before this returns: one that is done and does not end, one that prints without end and one
//! that hangs are all told apart by their `End`.
#![allow(
    unsafe_code,
    reason = "poll, kill and prctl have no safe form in the standard library"
)]

mod pty;
mod running;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(super) use self::running::{Reached, Running};

/// How long a program may live on after the image has said all.
const GRACE: Duration = Duration::from_secs(3);
/// The longest mark that [`Task::is_complete`] looks for: so much of what was searched is searched again.
const MARK: usize = 64;
/// How often limits are looked at while nothing is printed.
const LOOK_MS: libc::c_int = 50;

/// A program with its arguments and what it may use.
pub(super) struct Task<'a> {
    /// The program and its arguments.
    pub(super) words: &'a [OsString],
    /// How long it may run.
    pub(super) limit: Duration,
    /// The most bytes that are kept of each of its outputs; one that prints more is ended.
    pub(super) most: usize,
    /// Set when the command is to end.
    pub(super) stop: &'a AtomicBool,
    /// Whether a piece of its output has the mark after which nothing more is wanted.
    pub(super) is_complete: &'a dyn Fn(&[u8]) -> bool,
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its standard output.
    pub(super) output: Vec<u8>,
    /// Its standard error.
    pub(super) errors: Vec<u8>,
    /// How it ended.
    pub(super) end: End,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// All that was wanted was printed, and the program lived on until it was killed.
    Lingered,
    /// It ran out of its time.
    TimeLimit,
    /// It printed more than is kept.
    TooMuch,
    /// A signal asked the command to end.
    Stopped,
}

/// The program and the group that was made for it, which is killed when this is dropped: nothing of the program lives on,
/// whatever happens to the command.
struct Group(Child);

impl Group {
    /// Whether the program has exited. It is not waited for, so its number stays its own until the group is killed.
    fn has_exited(&self) -> io::Result<bool> {
        // SAFETY: siginfo_t is made of integers, for which all zeros is a value.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let what = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` lives on this frame through the call, which fills it.
        if unsafe { libc::waitid(libc::P_PID, self.0.id(), &raw mut info, what) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel filled the structure for a child, or left it zero.
        Ok(unsafe { info.si_pid() } != 0)
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Ok(id) = libc::pid_t::try_from(self.0.id()) {
            // SAFETY: no pointers. The child has not been waited for, so the number is that of the group made for it.
            unsafe { libc::kill(-id, libc::SIGKILL) };
        }
        self.0.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A child that was waited for has a status now, and its group was killed.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            // There is nobody to tell if waiting fails.
            let _ = self.kill();
        }
    }
}

/// Runs the program until it ends or is ended.
pub(super) fn run(task: &Task<'_>) -> io::Result<Ended> {
    let mut running = Running::start(task.words, task.most)?;
    let end = watch(task, &running.group, &mut running.streams)?;
    running.end(end)
}

fn die_with_parent() -> io::Result<()> {
    // SAFETY: prctl takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the program's end, and returns `None`, or for the reason to end it.
fn watch(task: &Task<'_>, group: &Group, streams: &mut [Stream; 2]) -> io::Result<Option<End>> {
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
            return Ok(Some(End::TooMuch));
        }
        if task.stop.load(Ordering::Relaxed) {
            return Ok(Some(End::Stopped));
        }
        let output = &streams[0].kept;
        let unsearched = &output[searched.min(output.len())..];
        if complete.is_none() && (task.is_complete)(unsearched) {
            complete = Some(Instant::now());
        }
        searched = output.len().saturating_sub(MARK);
        if complete.is_some_and(|at| at.elapsed() >= GRACE) {
            return Ok(Some(End::Lingered));
        }
        if begun.elapsed() >= task.limit {
            return Ok(Some(End::TimeLimit));
        }
    }
}

/// Waits until a stream has something or a moment has passed.
fn wait(streams: &[Stream; 2]) -> io::Result<()> {
    let mut polled = streams.each_ref().map(|stream| libc::pollfd {
        fd: stream.fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: the array lives on this frame through the call, and its length is given. A negative descriptor is passed
    // over by the kernel.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), 2, LOOK_MS) };
    let error = io::Error::last_os_error();
    if result < 0 && error.kind() != ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(())
}

/// One of the program's streams, which is never waited for.
struct Stream {
    from: Option<Box<dyn Source>>,
    kept: Vec<u8>,
    most: usize,
    is_full: bool,
}

trait Source: Read + AsRawFd {}
impl<T: Read + AsRawFd> Source for T {}

impl Stream {
    fn of(from: Option<impl Source + 'static>, most: usize) -> io::Result<Self> {
        if let Some(from) = &from {
            // SAFETY: the descriptor is open and ours, and the call takes numbers only.
            if unsafe { libc::fcntl(from.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self {
            from: from.map(|from| Box::new(from) as Box<dyn Source>),
            kept: Vec::new(),
            most,
            is_full: false,
        })
    }

    /// The descriptor, or one that poll passes over once the stream has ended.
    fn fd(&self) -> RawFd {
        self.from.as_ref().map_or(-1, |from| from.as_raw_fd())
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
