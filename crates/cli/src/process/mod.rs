//! Runs one program in its own process group, keeps what it prints, and ends it: a VMM of `vmbell bench vmms`, and the other
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

pub(super) use self::child::{ProgramEnd, ProgramOutput, find};
pub(super) use self::running::{Reached, RunningProgram};
use vmbell_bench::CommandLimit;
use vmbell_lab::spin::Watch;

/// The most bytes that are kept of what a program prints, unless its task says otherwise.
pub(super) const MOST_OUTPUT: usize = 1 << 20;
/// How long a program may live on after the image has said all.
const GRACE: Duration = Duration::from_secs(3);

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
    let end = watch(task, &mut running)?;
    let has_spun = spins.is_some_and(|spins| spins.found());
    running.end(if has_spun {
        Some(ProgramEnd::Spun)
    } else {
        end
    })
}

/// Waits for the program's end, and returns `None`, or for the reason to end it.
fn watch(task: &ProgramTask<'_>, running: &mut RunningProgram) -> io::Result<Option<ProgramEnd>> {
    let begun = Instant::now();
    if let Reached::End(end) = running.until(task.is_complete, task.limit, task.stop)? {
        return Ok(end);
    }
    let left = task.limit.saturating_sub(begun.elapsed());
    Ok(
        match running.until(|_| false, left.min(GRACE), task.stop)? {
            Reached::End(Some(ProgramEnd::TimeLimit)) if left >= GRACE => {
                Some(ProgramEnd::Lingered)
            }
            Reached::End(end) => end,
            Reached::Mark => None,
        },
    )
}

#[cfg(test)]
#[path = "process_test.rs"]
mod tests;
