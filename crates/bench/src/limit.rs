//! When to stop early: an interrupt from the keyboard, the command's own time limit, or that of one run.
//!
//! A [`Limit`] is a cheap clone. The runner asks it between runs whether to go on at all; a subject
//! that waits for a guest must ask it whether its run is over, since a guest may loop for ever.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Why measuring stops before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Interrupted,
    /// The time limit of the whole command ran out.
    TimedOut,
}

/// Says whether to go on.
#[derive(Clone, Debug)]
pub struct Limit {
    deadline: Option<Instant>,
    interrupted: &'static AtomicBool,
    run_timeout: Option<Duration>,
    /// When the run that is under way has to end.
    run: Arc<Mutex<Option<Instant>>>,
}

/// A run under way; its time stops to count when this is dropped.
#[derive(Debug)]
pub struct Running<'l>(&'l Limit);

impl Limit {
    /// Goes on until `interrupted` becomes true or `timeout`, counted from now, has passed.
    pub fn new(timeout: Option<Duration>, interrupted: &'static AtomicBool) -> Self {
        Self {
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            interrupted,
            run_timeout: None,
            run: Arc::default(),
        }
    }

    /// The same, and no run takes longer than `timeout`.
    #[must_use]
    pub fn with_run_timeout(self, timeout: Option<Duration>) -> Self {
        Self {
            run_timeout: timeout,
            ..self
        }
    }

    /// The same limit for another thread's runs.
    #[must_use]
    pub fn of_other_runs(&self) -> Self {
        Self {
            run: Arc::default(),
            ..self.clone()
        }
    }

    /// Goes on for ever.
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self::new(None, &NEVER)
    }

    /// Why to stop now, if at all. An interrupt wins: it is what the user sees happen.
    pub fn stop(&self) -> Option<Stop> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(Stop::Interrupted);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Some(Stop::TimedOut),
            _ => None,
        }
    }

    /// What is left, if there is a time limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// How long one run may take, if that is limited.
    pub fn run_timeout(&self) -> Option<Duration> {
        self.run_timeout
    }

    /// A run begins, of one thread at a time.
    pub fn begin_run(&self) -> Running<'_> {
        let timeout = self.run_timeout;
        self.set_run(timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
        Running(self)
    }

    /// Whether the run under way has to end, for whatever reason.
    pub fn is_run_over(&self) -> bool {
        self.stop().is_some() || self.overtime().is_some()
    }

    /// How long ago the run under way should have ended, if it should have.
    pub fn overtime(&self) -> Option<Duration> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.and_then(|deadline| Instant::now().checked_duration_since(deadline))
    }

    fn set_run(&self, deadline: Option<Instant>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set_run(None);
    }
}
