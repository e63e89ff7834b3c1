//! What an exploration found, as values and as text.

use std::fmt;

use crate::code::crash_name;
use crate::model::Model;
use crate::search::{Search, Stats, Wrong};
use crate::signals;
use crate::trace::Story;

/// What the exploration of a scenario found, under each model.
#[derive(Debug)]
pub struct Report {
    /// One verdict for each model, in the order in which the models were requested.
    pub verdicts: Vec<Verdict>,
}

/// What was found under one model.
#[derive(Debug)]
pub struct Verdict {
    /// The model.
    pub model: Model,
    /// Whether every execution that the model allows was explored. If not, the verdict is not a
    /// proof.
    pub complete: bool,
    /// What went wrong in the failed execution that switches the fewest times between tasks.
    pub failure: Option<Failure>,
    /// Whether an execution crashed. The failure that is shown can be a different one.
    pub(crate) crashed: bool,
    pub(crate) stats: Stats,
}

/// An execution that went wrong.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub what: What,
    /// The steps of the execution.
    pub trace: Vec<String>,
    switches: usize,
}

/// What went wrong in an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A lost notification: tasks that had to return sleep forever, and nothing will wake them.
    Lost {
        /// The tasks that had to return.
        tasks: Vec<String>,
    },
    /// A task panicked.
    Panicked(String),
    /// A task raised a signal, like C code that accesses unmapped memory or calls `abort`. The search stops there.
    Crashed {
        /// The task.
        task: String,
        /// The name of the signal, such as `SIGSEGV`.
        signal: &'static str,
        /// The address that was accessed, if the kernel reports it.
        address: Option<usize>,
        /// The function, the file and the line.
        site: String,
    },
    /// A claim or a final check of the scenario does not hold.
    Claim(String),
}

impl Failure {
    pub(crate) fn new(search: &Search, wrong: Wrong) -> Failure {
        let story = Story::of(search);
        let trace = story.lines(search, wrong == Wrong::Stuck);
        let what = match wrong {
            Wrong::Stuck => What::Lost {
                tasks: search
                    .tasks
                    .iter()
                    .filter(|task| task.is_stuck())
                    .map(|task| task.name.clone())
                    .collect(),
            },
            Wrong::Panic(text) => What::Panicked(text),
            Wrong::Crash { task, crash } => What::Crashed {
                task,
                signal: signals::name(crash.signal),
                address: crash.address,
                site: crash_name(&crash.callers),
            },
            Wrong::Claim(text) => What::Claim(text),
        };
        Failure {
            what,
            trace,
            switches: story.switches,
        }
    }

    pub(crate) fn is_simpler_than(&self, other: &Failure) -> bool {
        (self.switches, self.trace.len()) < (other.switches, other.trace.len())
    }

    /// How often the trace switches from one task to another.
    pub fn switches(&self) -> usize {
        self.switches
    }
}

impl Verdict {
    /// How many executions were explored to the end.
    pub fn executions(&self) -> u64 {
        self.stats.executions
    }

    /// How long the exploration took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.stats.elapsed.as_secs_f64()
    }
}

impl Report {
    /// The first failure, if there is one.
    pub fn failure(&self) -> Option<&Failure> {
        self.verdicts
            .iter()
            .find_map(|verdict| verdict.failure.as_ref())
    }

    /// Whether every execution was explored under each model.
    pub fn is_complete(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.complete)
    }

    /// Whether every execution was explored, and none went wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.is_complete() && self.failure().is_none()
    }

    /// Checks that no execution went wrong.
    ///
    /// # Panics
    ///
    /// With the trace, if an execution went wrong.
    pub fn assert_no_failure(&self) -> &Report {
        assert!(self.failure().is_none(), "\n{self}");
        self
    }

    /// Checks that every execution was explored.
    ///
    /// # Panics
    ///
    /// If a limit ended an exploration early.
    pub fn assert_complete(&self) -> &Report {
        let cut = self
            .verdicts
            .iter()
            .any(|verdict| !verdict.complete && verdict.failure.is_none());
        assert!(
            !cut,
            "the exploration did not end within its limits, so that it proves nothing:\n{self}"
        );
        self
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Lost { tasks } => write!(
                f,
                "lost notification: {} can never go on",
                tasks.join(" and ")
            ),
            What::Panicked(text) => write!(f, "panic: {text}"),
            What::Crashed {
                task,
                signal,
                address,
                site,
            } => {
                write!(f, "crash: {task} gets {signal} in {site}")?;
                match address {
                    Some(address) => write!(f, ", which accesses address {address:#x}"),
                    None => Ok(()),
                }
            }
            What::Claim(text) => f.write_str(text),
        }
    }
}

impl Verdict {
    /// The verdict without its trace.
    fn summary(&self) -> String {
        let Stats {
            executions,
            events,
            elapsed,
            spurious,
            ..
        } = self.stats;
        let word = match (&self.failure, self.complete) {
            (Some(_), _) => "FAILED",
            (None, true) => "complete",
            (None, false) => "bounded",
        };
        let what = match &self.failure {
            Some(failure) => failure.what.to_string(),
            None if self.complete && spurious > 0 => {
                let ending = if spurious == 1 { "" } else { "s" };
                format!("no notification is lost, at most {spurious} spurious wake-up{ending}")
            }
            None if self.complete => "no notification is lost".to_string(),
            None => "nothing found so far, which is no proof".to_string(),
        };
        format!(
            "{:4}  {word:8}  {executions:>8} executions of up to {events} steps in {:.2} s: {what}",
            self.model,
            elapsed.as_secs_f64(),
        )
    }

    fn what(&self) -> Option<&What> {
        self.failure.as_ref().map(|failure| &failure.what)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trace
            .iter()
            .try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match &self.failure {
            None => Ok(()),
            Some(failure) => write!(f, "\n{failure}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left: Vec<&Verdict> = self.verdicts.iter().collect();
        while let Some(&first) = left.first() {
            let is_same = |verdict: &&Verdict| {
                std::ptr::eq(*verdict, first)
                    || first.what().is_some() && verdict.what() == first.what()
            };
            let (same, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_same);
            for verdict in &same {
                writeln!(f, "{}", verdict.summary())?;
            }
            // Each weaker model also allows what this one allows.
            let strongest = same.iter().min_by_key(|verdict| verdict.model);
            if let Some(failure) = strongest.and_then(|verdict| verdict.failure.as_ref()) {
                if let [models @ .., last] = &*same
                    && !models.is_empty()
                {
                    let models: Vec<String> =
                        models.iter().map(|one| one.model.to_string()).collect();
                    let models = models.join(", ");
                    writeln!(f, "    {models} and {} allow this:", last.model)?;
                }
                writeln!(f, "{failure}")?;
            }
            left = others;
        }
        Ok(())
    }
}
