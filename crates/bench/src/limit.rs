//! When to stop early: at an interrupt from the keyboard, at the command's own time limit, or at that
//! of one run.
//!
//! A [`CommandLimit`] is cheap to clone. The runner asks it between runs whether to continue. A subject
//! that waits for a guest must ask it whether its run is over, since a guest may loop forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vmbell::sync::Mutex;

/// Why measuring stops before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyStop {
    /// A signal arrived.
    Interrupted,
    /// The time limit of the whole command ran out, or that of the lab in which it runs.
    TimedOut,
}

/// The limits of a command; its clones share the deadline of the run under way.
#[derive(Clone, Debug)]
pub struct CommandLimit {
    deadline: Option<Instant>,
    interrupted: &'static AtomicBool,
    /// What an interrupt means, asked when there is one.
    meaning: fn() -> EarlyStop,
    run_timeout: Option<Duration>,
    /// When the run under way has to end; `None` without a run or a limit for it.
    run: Arc<Mutex<Option<Instant>>>,
}

/// A run under way; dropping it ends the run, and its time limit with it.
#[derive(Debug)]
pub struct LimitedRun<'l>(&'l CommandLimit);

impl CommandLimit {
    /// A limit that is reached when `interrupted` becomes true or `timeout`, counted from now, has
    /// passed.
    pub fn new(timeout: Option<Duration>, interrupted: &'static AtomicBool) -> Self {
        Self {
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            interrupted,
            meaning: || EarlyStop::Interrupted,
            run_timeout: None,
            run: Arc::default(),
        }
    }

    /// The same limit, and an interrupt is what `meaning` says: the lab interrupts a program at a time limit.
    #[must_use]
    pub fn with_meaning(self, meaning: fn() -> EarlyStop) -> Self {
        Self { meaning, ..self }
    }

    /// The same limit, and each run takes at most `timeout`.
    #[must_use]
    pub fn with_run_timeout(self, timeout: Option<Duration>) -> Self {
        Self {
            run_timeout: timeout,
            ..self
        }
    }

    /// The same limit, for the runs of another thread.
    #[must_use]
    pub fn of_other_runs(&self) -> Self {
        Self {
            run: Arc::default(),
            ..self.clone()
        }
    }

    /// A limit that is never reached.
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::new(None, &NEVER)
    }

    /// Why to stop now, if at all. An interrupt counts before a time limit, because the user caused it.
    pub fn stop(&self) -> Option<EarlyStop> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some((self.meaning)());
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Some(EarlyStop::TimedOut),
            _ => None,
        }
    }

    /// The time left for the command, if that is limited.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// How long one run may take, if that is limited.
    pub fn run_timeout(&self) -> Option<Duration> {
        self.run_timeout
    }

    /// Says that a run begins. Clones of the limit share it, so only one thread at a time may have a
    /// run.
    pub fn begin_run(&self) -> LimitedRun<'_> {
        let timeout = self.run_timeout;
        self.set_run(timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
        LimitedRun(self)
    }

    /// Whether the run under way has to end: by its own time limit, the command's, or an interrupt.
    pub fn is_run_over(&self) -> bool {
        self.stop().is_some() || self.overtime().is_some()
    }

    /// How long ago the run under way should have ended; `None` if its time is not over.
    pub fn overtime(&self) -> Option<Duration> {
        let run = self.run.lock();
        run.and_then(|deadline| Instant::now().checked_duration_since(deadline))
    }

    fn set_run(&self, deadline: Option<Instant>) {
        *self.run.lock() = deadline;
    }
}

impl Drop for LimitedRun<'_> {
    fn drop(&mut self) {
        self.0.set_run(None);
    }
}
