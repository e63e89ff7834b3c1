//! Runs the lab's own tests, which run on this host and boot the lab themselves. The tests of a module run in one
//! process, because they may share boots.

use std::cmp::Reverse;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;

use super::stage::StageCounts;
use super::suites::{TestSuite, passed};
use crate::artifacts;
use crate::child;

/// The module with the tests of a panic and, for QEMU before 9.1, of an oops; and the number of boots that the module
/// repeats on purpose.
const ON_PURPOSE: (&str, usize) = ("lab_boot::ends", 2);

/// A queue of modules of tests. Each waits until a thread has a free CPU for it.
pub(super) struct LabTestQueue<'a> {
    suite: &'a TestSuite,
    modules: Vec<Module<'a>>,
    /// The `vmbell` that the tests have to use, and the variable that names it.
    vmbell: Option<(&'static str, &'a Path)>,
    state: Mutex<State>,
}

/// The tests whose paths begin with the same name.
#[derive(Debug, PartialEq, Eq)]
struct Module<'a> {
    name: &'a str,
    tests: Vec<&'a str>,
}

#[derive(Default)]
struct State {
    begun: usize,
    counts: StageCounts,
    failures: Vec<String>,
}

impl<'a> LabTestQueue<'a> {
    /// Queues all of these tests. They use the `vmbell` that cargo built for them unless a different one is named.
    pub(super) fn new(suite: &'a TestSuite, vmbell: Option<(&'static str, &'a Path)>) -> Self {
        Self {
            suite,
            modules: modules(&suite.tests),
            vmbell,
            state: Mutex::default(),
        }
    }

    /// Runs modules on this thread until none is left. Several threads may call this.
    pub(super) fn work(&self) {
        while let Some(module) = self.next() {
            let started = Instant::now();
            let ran = self.run(module);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (name, tests) = (module.name, module.tests.len());
            match ran {
                Ok(counts) => {
                    state.counts = state.counts + counts;
                    let StageCounts { boots, passed, .. } = counts;
                    let seconds = started.elapsed().as_secs_f64();
                    println!(
                        "lab: {name}: {passed} of {tests} tests passed, boots {boots}, {seconds:.1} s"
                    );
                    if passed != tests {
                        let failure = format!("{name}: {passed} of {tests} tests passed");
                        state.failures.push(failure);
                    }
                }
                Err(error) => state.failures.push(format!("{name}: {error:#}")),
            }
        }
    }

    fn next(&self) -> Option<&Module<'a>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let module = self.modules.get(state.begun)?;
        state.begun += 1;
        Some(module)
    }

    fn run(&self, module: &Module<'_>) -> Result<StageCounts> {
        let mut command = Command::new(&self.suite.binary.path);
        if let Some((variable, vmbell)) = self.vmbell {
            command.env(variable, vmbell);
        }
        // The messages about boots are counted, so the output of the tests is not captured.
        command.args(["--ignored", "--nocapture", "--test-threads", "1", "--exact"]);
        let child = child::run(command.args(&module.tests).current_dir(artifacts::root()))?;
        let name = format!("{}::{}", self.suite.binary.name, module.name);
        let on_purpose = if name == ON_PURPOSE.0 {
            ON_PURPOSE.1
        } else {
            0
        };
        Ok(StageCounts {
            passed: passed(&child.stdout).unwrap_or_default(),
            ..StageCounts::told(&child, &name, on_purpose)?
        })
    }

    /// Returns the results of all threads.
    pub(super) fn finish(self) -> (StageCounts, Vec<String>) {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        (state.counts, state.failures)
    }
}

/// Groups tests by module. The modules with the most tests come first, because they take the longest.
fn modules(tests: &[String]) -> Vec<Module<'_>> {
    let mut modules: Vec<Module<'_>> = Vec::new();
    for test in tests {
        let (name, _) = test.split_once("::").unwrap_or((test, ""));
        match modules.iter_mut().find(|module| module.name == name) {
            Some(module) => module.tests.push(test),
            None => modules.push(Module {
                name,
                tests: vec![test],
            }),
        }
    }
    modules.sort_by_key(|module| Reverse(module.tests.len()));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_module_are_together_and_the_largest_module_is_first() {
        let tests = ["a::x", "b::c::x", "b::y", "z", "b::c::z"].map(str::to_owned);
        let names = |module: &Module<'_>| (module.name.to_owned(), module.tests.join(" "));
        let modules: Vec<_> = modules(&tests).iter().map(names).collect();
        let expected = [("b", "b::c::x b::y b::c::z"), ("a", "a::x"), ("z", "z")];
        let expected = expected.map(|(name, tests)| (name.to_owned(), tests.to_owned()));
        assert_eq!(modules, expected);
    }
}
