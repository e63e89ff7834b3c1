//! Runs a program in its own process group, keeps its output and ends it: a VMM of `vmbell bench vmms`, or the other
//! vmbell of `vmbell bench --interleave`.
//!
//! The calling thread waits for output, a time limit, or a signal to the command. The group is killed before `run`
//! returns. `ProgramEnd` tells apart a program that has finished its output but does not exit, one that prints without
//! end, and one that hangs.

mod child;
pub(crate) mod program;
mod running;
mod time_left;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

pub(super) use self::child::{ProgramEnd, ProgramOutput, find};
pub(super) use self::running::{Reached, RunningProgram};
pub(super) use self::time_left::TimeLeft;
use vmbell_bench::CommandLimit;
use vmbell_lab::spin::Watch;

/// The default limit on the bytes kept of a program's output.
pub(super) const MOST_OUTPUT: usize = 1 << 20;
/// How long a program may live on after its output is complete.
const GRACE: Duration = Duration::from_secs(3);

/// A program with its arguments and what it may use.
pub(super) struct ProgramTask<'a> {
    /// The program and its arguments.
    pub(super) words: &'a [OsString],
    /// How long the program may run.
    pub(super) limit: Duration,
    /// The maximum number of bytes that are kept of each output stream; a program that prints more is ended.
    pub(super) most: usize,
    /// When the command itself must end.
    pub(super) stop: &'a CommandLimit,
    /// Whether to end the program if it is a VMM whose guest spins ([`vmbell_lab::spin`]).
    pub(super) ends_if_spinning: bool,
    /// The CPUs that the program may use; empty means all CPUs of this process.
    pub(super) cpus: &'a [usize],
    /// Whether a piece of its output has the mark that completes the output.
    pub(super) is_complete: &'a dyn Fn(&[u8]) -> bool,
}

impl<'a> ProgramTask<'a> {
    /// A program that runs on any CPU, until it ends or reaches a limit.
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

/// Waits until the program ends (`None`) or there is a reason to end it.
fn watch(task: &ProgramTask<'_>, running: &mut RunningProgram) -> io::Result<Option<ProgramEnd>> {
    let mut time = TimeLeft::new(task.limit);
    if let Reached::End(end) = running.until(task.is_complete, &mut time, task.stop)? {
        return Ok(end);
    }
    let left = time.look();
    let mut grace = TimeLeft::new(left.min(GRACE));
    Ok(match running.until(|_| false, &mut grace, task.stop)? {
        Reached::End(Some(ProgramEnd::TimeLimit)) if left >= GRACE => Some(ProgramEnd::Lingered),
        Reached::End(end) => end,
        Reached::Mark => None,
    })
}

#[cfg(test)]
#[path = "process_test.rs"]
mod tests;
