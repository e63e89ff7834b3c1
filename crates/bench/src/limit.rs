//! When to stop early: at an interrupt from the keyboard, at the time limit of the command, or at the time limit of a
//! run.
//!
//! A [`CommandLimit`] is cheap to clone. The runner checks it between runs. A subject that waits for a guest must check
//! whether its run is over, because a guest may loop forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vmbell::sync::Mutex;

/// Why a measurement stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyStop {
    /// A signal arrived.
    Interrupted,
    /// The time limit of the whole command ran out, or the time limit of the lab that runs the command.
    TimedOut,
}

/// The limits of a command. Clones share the deadline of the current run.
#[derive(Clone, Debug)]
pub struct CommandLimit {
    deadline: Option<Instant>,
    interrupted: &'static AtomicBool,
    /// What an interrupt means; called when an interrupt has arrived.
    meaning: fn() -> EarlyStop,
    run_timeout: Option<Duration>,
    /// When the current run has to end; `None` if there is no run, or no limit for it.
    run: Arc<Mutex<Option<Instant>>>,
}

/// The current run. Dropping this value ends the run and its time limit.
#[derive(Debug)]
pub struct LimitedRun<'l>(&'l CommandLimit);

impl CommandLimit {
    /// A limit that is reached when `interrupted` becomes true, or when `timeout` has passed from now.
    pub fn new(timeout: Option<Duration>, interrupted: &'static AtomicBool) -> Self {
        Self {
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            interrupted,
            meaning: || EarlyStop::Interrupted,
            run_timeout: None,
            run: Arc::default(),
        }
    }

    /// Returns the same limit, where `meaning` says what an interrupt means: the lab also interrupts a program at a
    /// time limit.
    #[must_use]
    pub fn with_meaning(self, meaning: fn() -> EarlyStop) -> Self {
        Self { meaning, ..self }
    }

    /// Returns the same limit, with at most `timeout` for each run.
    #[must_use]
    pub fn with_run_timeout(self, timeout: Option<Duration>) -> Self {
        Self {
            run_timeout: timeout,
            ..self
        }
    }

    /// Returns the same limit for another thread, which has its own runs.
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

    /// How long one run may take, if its time is limited.
    pub fn run_timeout(&self) -> Option<Duration> {
        self.run_timeout
    }

    /// Begins a run. Clones of the limit share it, so only one thread at a time may have a run.
    pub fn begin_run(&self) -> LimitedRun<'_> {
        let timeout = self.run_timeout;
        self.set_run(timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
        LimitedRun(self)
    }

    /// Whether the current run has to end: because of its own time limit, the command's time limit, or an interrupt.
    pub fn is_run_over(&self) -> bool {
        self.stop().is_some() || self.overtime().is_some()
    }

    /// How long ago the current run should have ended; `None` if it still has time.
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
