//! When to stop early: the command's own time limit, or an interrupt from the keyboard.
//!
//! A [`Limit`] is a cheap clone. The runner asks it between runs; a subject that waits for a guest
//! must ask it too, since a guest may loop for ever.

use std::sync::atomic::{AtomicBool, Ordering};
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
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    deadline: Option<Instant>,
    interrupted: &'static AtomicBool,
}

impl Limit {
    /// Goes on until `interrupted` becomes true or `timeout`, counted from now, has passed.
    pub fn new(timeout: Option<Duration>, interrupted: &'static AtomicBool) -> Self {
        Self {
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            interrupted,
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
}
