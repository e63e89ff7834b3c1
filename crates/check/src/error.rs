//! What keeps a scenario from being explored.

use std::error::Error as _;
use std::path::PathBuf;
use std::{fmt, io};

use crate::model::Model;

/// Why a scenario cannot be explored. An error is not a verdict on the code under test.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The code under test was not compiled with instrumentation.
    #[error(
        "no access of the code under test reached the hooks: run the test with `cargo vmbell-check test`"
    )]
    NotInstrumented,
    /// A part of the code under test was not compiled with instrumentation.
    #[error("{access} of {place} at {site} is not instrumented, so the search would miss it")]
    Unhooked {
        /// `a load` or `a store`.
        access: &'static str,
        /// The field of the shared memory.
        place: String,
        /// The function, the file and the line.
        site: String,
    },
    /// Another thread accessed the shared memory.
    #[error("{site} accesses {place} from a separate thread: run the handler itself as a task")]
    OtherThread {
        /// The field of the shared memory.
        place: String,
        /// The function, the file and the line.
        site: String,
    },
    /// A task did something else in a replay than in the recorded execution.
    #[error(
        "step {step} of {task} differs between two runs with the same inputs: {recorded} before, {now} now; time, random \
         numbers, addresses and global state must not decide what a task does"
    )]
    Diverged {
        /// The task.
        task: String,
        /// The number of the step among the task's steps.
        step: usize,
        /// What the task did in the recorded execution.
        recorded: String,
        /// What the task does now.
        now: String,
    },
    /// The scenario sets up different memory each time.
    #[error(
        "the scenario writes different initial values to the shared memory each time that it is set up"
    )]
    SetupDiffers,
    /// An execution does not end.
    #[error(
        "an execution has more than {steps} steps; {task} took the last: a task must return or wait"
    )]
    TooManySteps {
        /// The task that took the last step.
        task: String,
        /// The limit.
        steps: usize,
    },
    /// A scenario has too many tasks.
    #[error("a scenario with {tasks} tasks cannot be explored: the limit is {limit}")]
    TooManyTasks {
        /// How many tasks the scenario has.
        tasks: usize,
        /// How many tasks a scenario may have.
        limit: usize,
    },
    /// An execution has too many sequentially consistent events for RC11.
    #[error(
        "an execution has more than {limit} sequentially consistent fences and accesses, the limit under RC11"
    )]
    TooManyFences {
        /// How many such events an execution may have.
        limit: usize,
    },
    /// The shared memory is too large.
    #[error("{pages} pages of shared memory are too many: the limit is {limit}")]
    TooManyPages {
        /// How many pages were asked for.
        pages: usize,
        /// How many pages are allowed.
        limit: usize,
    },
    /// Two tasks take the same signal.
    #[error(
        "{one} waits for a signal of {word} that {other} takes away: only the task that waits may take it"
    )]
    TwoTakers {
        /// The word of the notification.
        word: String,
        /// The task that waits.
        one: String,
        /// The task that takes the signal.
        other: String,
    },
    /// A scenario has too many sleepers and words.
    #[error("{words} sleepers and words are too many after {memory} bytes of shared memory")]
    TooManyWords {
        /// How many sleepers and words the scenario has.
        words: usize,
        /// How many bytes of shared memory there are.
        memory: usize,
    },
    /// A ring has a size that its format does not allow.
    #[error(
        "a ring cannot have {size} descriptors: the size is a power of two, or for a packed ring from 1 to 32768"
    )]
    RingSize {
        /// The number of descriptors.
        size: u16,
    },
    /// A ring does not fit the shared memory.
    #[error(
        "the {part} of a ring of {size} ends at byte {end}, and the shared memory has {memory}"
    )]
    RingOutside {
        /// The part of the ring.
        part: &'static str,
        /// The number of descriptors.
        size: u16,
        /// Where the part ends.
        end: usize,
        /// How many bytes of shared memory there are.
        memory: usize,
    },
    /// A scenario whose orders cannot be weakened.
    #[error(
        "no order can be weakened, because the scenario is not complete and clean as it is:\n{report}"
    )]
    NotClean {
        /// What the exploration of the scenario found.
        report: String,
    },
    /// A scenario whose memory is not explored as a whole.
    #[error(
        "it shares memory that is not explored (with_guarded_data), which weaker orders would not affect"
    )]
    GuardedData,
    /// The scenario could not be explored with a change in the code under test.
    #[error("cannot explore the scenario under {model} with {changes}")]
    Changed {
        /// The model.
        model: Model,
        /// The sites that are weaker, with their orders, or the store that is moved.
        changes: String,
        /// Why the changed code cannot be explored.
        source: Box<Error>,
    },
    /// The result of weakening cannot be recorded for the subcommand.
    #[error("cannot write the record `{}`", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why the file cannot be written.
        source: io::Error,
    },
    /// The shared memory cannot be mapped.
    #[error("cannot map {pages} pages as the shared memory")]
    Map {
        /// How many pages were to be mapped.
        pages: usize,
        /// Why the mapping failed.
        source: io::Error,
    },
    /// The guard needs an executable page to step over instructions, and cannot map it.
    #[error("cannot map an executable page for the guard")]
    Step(#[source] io::Error),
    /// There is no memory for the stack of a task.
    #[error("cannot allocate the stack of a task")]
    Stack(#[source] io::Error),
}

/// The message and its sources: a test that unwraps a report prints this.
impl fmt::Debug for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")?;
        let mut source = self.source();
        while let Some(error) = source {
            write!(out, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
