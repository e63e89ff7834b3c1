//! Runs the tests in L1, one after the other, and prints a line when each test begins and ends. A thread of `vmbell` in
//! L1 does that, so that the lines have been read if a test ends L1.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::{TestRun, TestVerdict};

/// The exit status of a test that cannot run.
const SKIPPED: i32 = 4;
/// The file for a test's output.
const LOG: &str = "/tmp/selftest.log";
/// The interval of checks whether a test has ended.
const POLL: Duration = Duration::from_millis(5);
/// The maximum number of lines that are kept for a failed test.
const KEPT: usize = 6;
/// The first words of a test's own message about a failure.
const FAILURE: &str = "==== Test Assertion Failure ====";

/// A line from the program in L1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestEvent {
    /// This test begins.
    Begun(String),
    /// A test has ended.
    Ended(TestRun),
}

/// Runs these programs, each at most for this time, and prints one [`TestEvent`] per line.
pub fn run_each(programs: &[PathBuf], limit: Duration, output: &mut impl Write) -> io::Result<()> {
    for program in programs {
        let name = program.file_name().unwrap_or_default();
        let test = name.to_string_lossy().into_owned();
        print(output, &TestEvent::Begun(test.clone()))?;
        print(output, &TestEvent::Ended(run(test, program, limit)?))?;
    }
    Ok(())
}

fn print(output: &mut impl Write, event: &TestEvent) -> io::Result<()> {
    let line = serde_json::to_string(event)?;
    writeln!(output, "{line}")?;
    output.flush()
}

fn run(test: String, program: &Path, limit: Duration) -> io::Result<TestRun> {
    let log = File::create(LOG)?;
    let begin = Instant::now();
    let mut child = Command::new(program)
        .current_dir("/tmp")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let status = wait(&mut child, begin, limit)?;
    let seconds = begin.elapsed().as_secs_f64();
    let text = fs::read(LOG)?;
    let text = String::from_utf8_lossy(&text);
    let (result, reason) = judge(status, &text);
    Ok(TestRun {
        test,
        result,
        reason,
        seconds,
    })
}

/// Waits for the test to end; `None` if it was killed at its time limit. All processes that it started are killed.
fn wait(child: &mut Child, begin: Instant, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() >= limit => break None,
            None => thread::sleep(POLL),
        }
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The test and all its processes may already have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if status.is_none() {
        child.wait()?;
    }
    Ok(status)
}

/// Returns the result of a test with this exit status and this output.
fn judge(status: Option<ExitStatus>, text: &str) -> (TestVerdict, Vec<String>) {
    let Some(status) = status else {
        return (TestVerdict::Timeout, last_lines(text));
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => (TestVerdict::Pass, Vec::new()),
        (Some(SKIPPED), _) => (TestVerdict::Skip, skipped(text)),
        (code, signal) => {
            let how = match (code, signal) {
                (_, Some(signal)) => format!("signal {signal}"),
                (code, _) => format!("exit status {}", code.unwrap_or_default()),
            };
            let mut reason = last_lines(text);
            reason.push(how);
            (TestVerdict::Fail, reason)
        }
    }
}

/// Returns the text after the word `SKIP`, or otherwise the last line.
fn skipped(text: &str) -> Vec<String> {
    let after = |line: &str| {
        let (_, rest) = line.split_once("SKIP")?;
        Some(
            rest.trim_start_matches([' ', '-', ':', ')'])
                .trim()
                .to_owned(),
        )
    };
    let said = text.lines().rev().find_map(after);
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    said.filter(|said| !said.is_empty())
        .or_else(|| last().map(|line| line.trim().to_owned()))
        .into_iter()
        .collect()
}

/// Returns the lines in which a test reports what failed, without its stack, or otherwise the last lines.
fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let failed = |line: &&str| line.starts_with("not ok") || line.contains(":Expected ");
    let said: Vec<&str> = match lines.iter().rposition(|line| *line == FAILURE) {
        Some(at) => lines[at + 1..]
            .iter()
            .copied()
            .filter(|line| !is_stack(line))
            .take(KEPT)
            .collect(),
        None => lines.iter().copied().filter(failed).take(KEPT).collect(),
    };
    let said = match said.is_empty() {
        false => said,
        true => lines[lines.len().saturating_sub(KEPT)..].to_vec(),
    };
    let filled = said.into_iter().filter(|line| !line.is_empty());
    filled.map(|line| without_folder(line).to_owned()).collect()
}

/// Shortens a line of the harness, `# /FOLDER/a_test.c:7:...`, to start at the file's name.
fn without_folder(line: &str) -> &str {
    let file = line.strip_prefix("# /").and_then(|path| {
        let end = path.find(".c:")?;
        Some(&path[path[..end].rfind('/')? + 1..])
    });
    file.unwrap_or(line)
}

/// Returns whether the line belongs to a test's stack: a number and an address, or the process's IDs.
fn is_stack(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let number = words.next().unwrap_or_default();
    let is_frame = number.bytes().all(|byte| byte.is_ascii_digit())
        && words.next().is_some_and(|word| word.starts_with("0x"));
    is_frame || line.starts_with("pid=") || line.starts_with("(stack trace") || line.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn a_skip_has_the_tests_reason() {
        for (text, reason) in [
            (
                "1..0 # SKIP - Requirement not met: nested\n",
                "Requirement not met: nested",
            ),
            ("TAP\nok 1 # SKIP no device\n", "no device"),
            ("a\nnot supported\n\n", "not supported"),
        ] {
            assert_eq!(
                judge(status(4), text),
                (TestVerdict::Skip, vec![reason.to_owned()])
            );
        }
        assert_eq!(judge(status(4), ""), (TestVerdict::Skip, Vec::new()));
    }

    #[test]
    fn a_failed_assertion_is_told_without_its_stack() {
        let text = "Testing guest mode\n==== Test Assertion Failure ====\n  x86_64/debug_regs.c:97: run->x\n  \
                    pid=7 tid=7 errno=0 - Success\n     1\t0x00000000004025d2: ?? ??:0\n  SINGLE_STEP[1]\n";
        let said = [
            "x86_64/debug_regs.c:97: run->x",
            "SINGLE_STEP[1]",
            "exit status 254",
        ];
        assert_eq!(
            judge(status(254), text),
            (TestVerdict::Fail, said.map(str::to_owned).into())
        );
    }

    #[test]
    fn a_failure_of_the_harness_is_told_by_its_expectations() {
        let text = "ok 1 a\n# /root/own/a_test.c:7:b:Expected 1 (1) == x (2)\nnot ok 2 b\n# Totals: pass:1 fail:1\n";
        let said = [
            "a_test.c:7:b:Expected 1 (1) == x (2)",
            "not ok 2 b",
            "exit status 1",
        ];
        assert_eq!(
            judge(status(1), text),
            (TestVerdict::Fail, said.map(str::to_owned).into())
        );
    }

    #[test]
    fn a_test_at_its_limit_and_one_that_a_signal_killed_have_their_last_lines() {
        assert_eq!(
            judge(None, "a\nb\n"),
            (TestVerdict::Timeout, vec!["a".into(), "b".into()])
        );
        let killed = judge(Some(ExitStatus::from_raw(11)), "");
        assert_eq!(killed, (TestVerdict::Fail, vec!["signal 11".into()]));
    }

    #[test]
    fn each_program_has_its_lines_and_one_that_hangs_is_killed() {
        let mut output = Vec::new();
        let programs = ["/bin/true", "/bin/false"].map(PathBuf::from);
        run_each(&programs, Duration::from_secs(60), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let events: Vec<TestEvent> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events[0], TestEvent::Begun("true".into()));
        let results: Vec<TestVerdict> = events
            .iter()
            .filter_map(|event| match event {
                TestEvent::Ended(ran) => Some(ran.result),
                TestEvent::Begun(_) => None,
            })
            .collect();
        assert_eq!(results, [TestVerdict::Pass, TestVerdict::Fail]);

        let mut child = Command::new("/bin/sh")
            .args(["-c", "while :; do :; done"])
            .process_group(0)
            .spawn()
            .unwrap();
        let ended = wait(&mut child, Instant::now(), Duration::ZERO).unwrap();
        assert_eq!(ended, None);
    }
}
