//! A program that runs beside what the command does meanwhile: a VMM whose guest serves others.
#![allow(unsafe_code, reason = "a closure that runs between fork and exec")]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::child::{LONGEST_MARK, OutputStream, ProcessGroup, ProgramEnd, ProgramOutput, wait};
use vmbell_bench::CommandLimit;

/// A program that was started; it is killed with its group when this is dropped.
pub(crate) struct RunningProgram {
    pub(super) group: ProcessGroup,
    pub(super) streams: [OutputStream; 2],
    /// While this is open, a read of the program's terminal waits.
    _keyboard: OwnedFd,
}

/// What a wait for a mark came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The program printed it.
    Mark,
    /// The program is over, or is to end, for this reason; it exited if there is none.
    End(Option<ProgramEnd>),
}

impl RunningProgram {
    /// Starts a program on these CPUs, or on all if there are none; `most` bytes of each of its outputs are kept.
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
        // SAFETY: between fork and exec the closure makes two system calls with what it owns, which is async-signal-safe.
        unsafe { command.pre_exec(before_exec) };
        let mut group = ProcessGroup(command.spawn()?);
        // What the command was made of holds the terminal, which the program alone is to have.
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

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.group.0.id()
    }

    /// Waits until `is_found` finds what it looks for in the standard output. It is called with each piece that was printed, which
    /// begins with the last bytes of the piece before.
    pub(crate) fn until(
        &mut self,
        is_found: impl Fn(&[u8]) -> bool,
        limit: Duration,
        stop: &CommandLimit,
    ) -> io::Result<Reached> {
        let begun = Instant::now();
        let mut searched = 0;
        loop {
            // What it printed before it exited is read after that was seen.
            let has_exited = self.group.has_exited()?;
            for stream in &mut self.streams {
                stream.read()?;
            }
            let printed = &self.streams[0].kept;
            if is_found(&printed[searched..]) {
                return Ok(Reached::Mark);
            }
            searched = searched.max(printed.len().saturating_sub(LONGEST_MARK));
            let end = if self.has_more() {
                Some(ProgramEnd::TooMuch)
            } else if has_exited {
                None
            } else if stop.stop().is_some() {
                Some(ProgramEnd::Stopped)
            } else if begun.elapsed() >= limit {
                Some(ProgramEnd::TimeLimit)
            } else {
                wait(&self.streams)?;
                continue;
            };
            return Ok(Reached::End(end));
        }
    }

    /// Whether it printed more than is kept.
    fn has_more(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_cut)
    }

    /// Kills the program, if it has not exited, and returns what it printed; `end` says why it is ended.
    pub(crate) fn end(mut self, end: Option<ProgramEnd>) -> io::Result<ProgramOutput> {
        let status = self.group.kill()?;
        for stream in &mut self.streams {
            // The rest of what it had printed; the group is dead, so no more comes.
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

/// Both ends of a pseudo terminal, a VMM's standard input: some VMMs end, or do not start, where that is no terminal.
#[derive(Debug)]
struct Pty {
    /// The end of a person who types. While it is open, a reader of the other end waits.
    keyboard: OwnedFd,
    /// The terminal itself, for the VMM.
    terminal: File,
}

/// Opens a pseudo terminal; neither end is inherited by other programs, and no process has it as its controlling terminal.
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
