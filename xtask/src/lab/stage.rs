//! The stages of `cargo xtask lab` with their results, and the final table.

use std::fmt::Write;
use std::fs;
use std::ops::Add;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::artifacts;
use crate::child::Finished;

/// The beginning of the line that the lab prints on stderr when it starts a boot.
const STARTED: &str = "lab: Linux ";
/// A part of the line that the lab prints when it boots again.
const AGAIN: &str = "starting it once more";
/// A part of the line that a test prints when it runs again in a separate boot. That boot prints its own line first.
const TEST_AGAIN: &str = "the test is run once more";

/// The counts of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StageCounts {
    /// Boots, including repeated ones.
    pub(super) boots: usize,
    /// Boots after a panic of L1's kernel.
    pub(super) retries: usize,
    /// Tests that passed, or rows that are as expected.
    pub(super) passed: usize,
}

impl StageCounts {
    /// Counts the boots in the child's messages.
    pub(super) fn of(child: &Finished) -> Self {
        let count = |found: fn(&&str) -> bool| child.stderr.lines().filter(found).count();
        let again = count(|line| line.contains(AGAIN));
        Self {
            boots: count(|line| line.starts_with(STARTED)) + again,
            retries: again + count(|line| line.contains(TEST_AGAIN)),
            passed: 0,
        }
    }

    /// Like [`of`](Self::of). If boots were repeated, not counting those that tests repeat on purpose, the output of
    /// all boots is kept, and a line says where: `.ci/run` looks for such lines.
    pub(super) fn told(child: &Finished, name: &str, on_purpose: usize) -> Result<Self> {
        let mut counts = Self::of(child);
        counts.retries = counts.retries.saturating_sub(on_purpose);
        if counts.retries > 0 {
            let retries = counts.retries;
            let path = format!("target/ci/retries/{name}.log");
            let log = artifacts::root().join(&path);
            let keep = || format!("cannot keep {}", log.display());
            fs::create_dir_all(log.with_file_name("")).with_context(keep)?;
            fs::write(&log, format!("{}\n{}", child.stdout, child.stderr)).with_context(keep)?;
            println!("retry: {name}: {retries}, see {path}");
        }
        Ok(counts)
    }
}

impl Add for StageCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            boots: self.boots + other.boots,
            retries: self.retries + other.retries,
            passed: self.passed + other.passed,
        }
    }
}

/// The result of one stage.
#[derive(Debug)]
pub(super) struct LabStage {
    pub(super) name: &'static str,
    pub(super) counts: StageCounts,
    pub(super) elapsed: Duration,
    pub(super) failure: Option<String>,
}

/// Runs a stage. A stage that fails also has a result.
pub(super) fn run(
    name: &'static str,
    stage: impl FnOnce() -> Result<(StageCounts, Vec<String>)>,
) -> LabStage {
    println!("\n== lab: {name}");
    let started = Instant::now();
    let (counts, failures) =
        stage().unwrap_or_else(|error| (StageCounts::default(), vec![format!("{error:#}")]));
    LabStage {
        name,
        counts,
        elapsed: started.elapsed(),
        failure: (!failures.is_empty()).then(|| failures.join("\n  ")),
    }
}

/// Returns the final table, followed by the failures.
pub(super) fn table(stages: &[LabStage], elapsed: Duration) -> String {
    let mut text = format!(
        "{:16}{:>7}{:>9}{:>8}{:>9}\n",
        "lab", "boots", "retries", "passed", "seconds"
    );
    let mut row = |name: &str, counts: StageCounts, elapsed: Duration| {
        let StageCounts {
            boots,
            retries,
            passed,
        } = counts;
        let seconds = elapsed.as_secs_f64();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{name:16}{boots:>7}{retries:>9}{passed:>8}{seconds:>9.1}"
        );
    };
    for stage in stages {
        row(stage.name, stage.counts, stage.elapsed);
    }
    let all = stages.iter().map(|stage| stage.counts);
    row(
        "all, with builds",
        all.fold(StageCounts::default(), Add::add),
        elapsed,
    );
    for stage in stages {
        if let Some(failure) = &stage.failure {
            let _ = writeln!(text, "FAILED {}:\n  {failure}", stage.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn boots_are_counted_from_the_labs_remarks() {
        let child = Finished {
            status: ExitStatus::from_raw(0),
            stdout: String::new(),
            stderr: "lab: Linux 6.12.1, QEMU 7.2.22 (the cache's own), 2 CPUs\n\
                     lab: L1's kernel panicked and left no exit code; starting it once more\n\
                     lab: exit status 0; 2.1 s, 2.4 s of CPU, retries 1\n\
                     lab: L1's kernel panicked: the test is run once more\n\
                     lab: Linux 6.12.1, QEMU 7.2.22 (the cache's own), 2 CPUs\n"
                .to_owned(),
        };
        assert_eq!(
            StageCounts::of(&child),
            StageCounts {
                boots: 3,
                retries: 2,
                passed: 0
            }
        );
    }

    #[test]
    fn boots_that_are_repeated_on_purpose_are_not_counted_as_retries() {
        let child = Finished {
            status: ExitStatus::from_raw(0),
            stdout: String::new(),
            stderr: "lab: L1's kernel panicked and left no exit code; starting it once more\n"
                .to_owned(),
        };
        let counts = StageCounts::told(&child, "ends", 2).unwrap();
        assert_eq!((counts.boots, counts.retries), (1, 0));
    }

    #[test]
    fn a_stage_that_failed_stands_below_the_table() {
        let stages = [
            run("good", || Ok((StageCounts::default(), Vec::new()))),
            run("bad", || anyhow::bail!("it broke")),
        ];
        let text = table(&stages, Duration::ZERO);
        assert!(text.ends_with("FAILED bad:\n  it broke\n"), "{text}");
    }
}
