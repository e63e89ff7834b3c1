//! A program that keeps running while the command goes on: a VMM whose guest is a server.
#![allow(unsafe_code, reason = "a closure that runs between fork and exec")]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::TimeLeft;
use super::child::{LONGEST_MARK, OutputStream, ProcessGroup, ProgramEnd, ProgramOutput, wait};
use vmbell_bench::CommandLimit;

/// A program that was started. It is killed with its group on drop.
pub(crate) struct RunningProgram {
    pub(super) group: ProcessGroup,
    pub(super) streams: [OutputStream; 2],
    /// Kept open so that reading the program's terminal blocks.
    _keyboard: OwnedFd,
}

/// The result of waiting for a mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The program printed the mark.
    Mark,
    /// The program exited (`None`), or has to be ended for this reason.
    End(Option<ProgramEnd>),
}

impl RunningProgram {
    /// Starts a program on these CPUs (empty means all); `most` bytes of each output stream are kept.
    pub(crate) fn start(words: &[OsString], most: usize, cpus: &[usize]) -> io::Result<Self> {
        let mut allowed = CpuSet::new();
        cpus.iter().for_each(|cpu| allowed.set(*cpu));
        let is_pinned = !cpus.is_empty();
        let before_exec = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if is_pinned {
                sched_setaffinity(None, &allowed)?;
            }
            Ok(())
        };
        let pty = open_pty()?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdin(pty.terminal)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        // SAFETY: between fork and exec the closure makes two system calls with what it owns, which is
        // async-signal-safe.
        unsafe { command.pre_exec(before_exec) };
        let mut group = ProcessGroup(command.spawn()?);
        // The command still holds the terminal, which only the program may keep.
        drop(command);
        let streams = [
            OutputStream::of(group.0.stdout.take(), most)?,
            OutputStream::of(group.0.stderr.take(), most)?,
        ];
        Ok(Self {
            group,
            streams,
            _keyboard: pty.keyboard,
        })
    }

    /// The PID.
    pub(crate) fn id(&self) -> u32 {
        self.group.0.id()
    }

    /// Whether it has exited.
    pub(crate) fn has_exited(&self) -> io::Result<bool> {
        self.group.has_exited()
    }

    /// Waits until `is_found` accepts a piece of standard output. It is called with each new piece, preceded by the
    /// last bytes of the piece before.
    pub(crate) fn until(
        &mut self,
        is_found: impl Fn(&[u8]) -> bool,
        time: &mut TimeLeft,
        stop: &CommandLimit,
    ) -> io::Result<Reached> {
        let mut searched = 0;
        let is_found_in = |printed: &[u8]| {
            let is_found = is_found(&printed[searched..]);
            searched = searched.max(printed.len().saturating_sub(LONGEST_MARK));
            is_found
        };
        self.until_output(is_found_in, time, stop)
    }

    /// Waits until `is_found` accepts the whole standard output.
    pub(crate) fn until_output(
        &mut self,
        mut is_found: impl FnMut(&[u8]) -> bool,
        time: &mut TimeLeft,
        stop: &CommandLimit,
    ) -> io::Result<Reached> {
        loop {
            // Checked before reading, so that the last output before the exit is read too.
            let has_exited = self.group.has_exited()?;
            for stream in &mut self.streams {
                stream.read()?;
            }
            if is_found(&self.streams[0].kept) {
                return Ok(Reached::Mark);
            }
            let end = if self.has_more() {
                Some(ProgramEnd::TooMuch)
            } else if has_exited {
                None
            } else if stop.stop().is_some() {
                Some(ProgramEnd::Stopped)
            } else if time.look().is_zero() {
                Some(ProgramEnd::TimeLimit)
            } else {
                wait(&self.streams)?;
                continue;
            };
            return Ok(Reached::End(end));
        }
    }

    /// The program's standard output and standard error, as far as they were read.
    pub(crate) fn printed(&self) -> [&[u8]; 2] {
        [&self.streams[0].kept, &self.streams[1].kept]
    }

    /// Reads what the program has printed, without waiting.
    pub(crate) fn read_output(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(OutputStream::read)
    }

    /// Forgets the complete lines of its output, so that a program that runs for long does not print too much.
    pub(crate) fn forget_lines(&mut self) {
        self.streams.iter_mut().for_each(OutputStream::forget_lines);
    }

    /// Whether the program printed more than is kept.
    fn has_more(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_cut)
    }

    /// Kills the program, unless it has exited, and returns its output; `end` is the reason.
    pub(crate) fn end(mut self, end: Option<ProgramEnd>) -> io::Result<ProgramOutput> {
        let status = self.group.kill()?;
        for stream in &mut self.streams {
            // Read the rest of the output; the group is dead, so no more comes.
            stream.read()?;
        }
        let end = end.or(self.has_more().then_some(ProgramEnd::TooMuch));
        let [output, errors] = self.streams.map(|stream| stream.kept);
        Ok(ProgramOutput {
            output,
            errors,
            end: end.unwrap_or(ProgramEnd::Exited(status)),
        })
    }
}

/// Both ends of a pseudo terminal for a VMM's standard input: some VMMs exit, or do not start, without a terminal.
#[derive(Debug)]
struct Pty {
    /// The keyboard's end. While it is open, reads of the other end block.
    keyboard: OwnedFd,
    /// The terminal itself, for the VMM.
    terminal: File,
}

/// Opens a pseudo terminal. Other programs inherit neither end, and it is no process's controlling terminal.
fn open_pty() -> io::Result<Pty> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let terminal = ioctl_tiocgptpeer(&keyboard, flags)?;
    Ok(Pty {
        keyboard,
        terminal: terminal.into(),
    })
}

#[cfg(test)]
#[path = "running_test.rs"]
mod tests;
