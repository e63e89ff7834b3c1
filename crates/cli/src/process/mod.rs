//! Runs one program in a process group of its own, keeps what it prints, and ends it: a VMM of `vmbell bench vmms`, and the other
//! vmbell of `vmbell bench --interleave`.
//!
//! The calling thread waits for output, for the end of the time, and for a signal to the command. Whatever the program
//! does, its group is killed before this returns: one that is done and does not end, one that prints without end and one
//! that hangs are all told apart by their `ProgramEnd`.

mod child;
pub(crate) mod program;
mod running;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use self::child::{OutputStream, ProcessGroup, wait};
pub(super) use self::child::{ProgramEnd, ProgramOutput};
pub(super) use self::running::{Reached, RunningProgram};
use vmbell_bench::CommandLimit;
use vmbell_lab::spin::Watch;

/// The most bytes that are kept of what a program prints, unless its task says otherwise.
pub(super) const MOST_OUTPUT: usize = 1 << 20;
/// How long a program may live on after the image has said all.
const GRACE: Duration = Duration::from_secs(3);
/// The longest mark that [`ProgramTask::is_complete`] looks for: so much of what was searched is searched again.
const MARK: usize = 64;

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

#[cfg(test)]
#[path = "process_test.rs"]
mod tests;
