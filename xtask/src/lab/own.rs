//! Runs the lab's own tests, which run on this host and boot the lab themselves.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use super::stage::StageCounts;
use super::suites::{Suite, passed};
use crate::artifacts;
use crate::child;

/// How many boots are repeated on purpose, by the tests of a panic and, with a QEMU older than 9.1, of an oops.
pub(super) const RETRIES_ON_PURPOSE: usize = 2;

/// Tests that wait for a thread with a CPU for them.
pub(super) struct Queue<'a> {
    suite: &'a Suite,
    /// The `vmbell` for boots of arm64.
    arm64: Option<&'a Path>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    begun: usize,
    counts: StageCounts,
    failures: Vec<String>,
}

impl<'a> Queue<'a> {
    /// All of these tests.
    pub(super) fn new(suite: &'a Suite, arm64: Option<&'a Path>) -> Self {
        Self {
            suite,
            arm64,
            state: Mutex::default(),
        }
    }

    /// Runs tests on this thread until none is left; several threads may do so.
    pub(super) fn work(&self) {
        while let Some(name) = self.next() {
            let ran = self.run(name);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match ran {
                Ok(counts) => {
                    state.counts = state.counts + counts;
                    if counts.passed != 1 {
                        state.failures.push(format!("{name} did not pass"));
                    }
                }
                Err(error) => state.failures.push(format!("{name}: {error:#}")),
            }
        }
    }

    fn next(&self) -> Option<&str> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.suite.tests.get(state.begun)?;
        state.begun += 1;
        Some(name)
    }

    fn run(&self, name: &str) -> Result<StageCounts> {
        let mut command = Command::new(&self.suite.binary.path);
        if let Some(vmbell) = self.arm64 {
            command.env("VMBELL_AARCH64", vmbell);
        }
        // The messages of the boots are counted, so the output of tests is not captured.
        let child = child::run(
            command
                .args(["--ignored", "--nocapture", "--exact", name])
                .current_dir(artifacts::root()),
        )?;
        let passed = passed(&child.stdout).filter(|_| child.status.success());
        Ok(StageCounts {
            passed: passed.unwrap_or_default(),
            ..StageCounts::of(&child)
        })
    }

    /// What all threads have done, of which some boots were repeated on purpose.
    pub(super) fn finish(self, retries_on_purpose: usize) -> (StageCounts, Vec<String>) {
        let state = self.state.into_inner();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.counts.retries = state.counts.retries.saturating_sub(retries_on_purpose);
        (state.counts, state.failures)
    }
}
