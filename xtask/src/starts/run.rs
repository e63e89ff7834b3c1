//! Runs a command once, and measures it.

use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The results of one run, with times in seconds.
#[derive(Clone, Debug)]
pub(super) struct TimedRun {
    /// The lab's messages.
    pub(super) messages: String,
    /// CPU time of the command and all its children.
    pub(super) cpu: f64,
    pub(super) wall: f64,
    /// From the start of the command to the end of its first line; `None` if it printed none.
    pub(super) first_line: Option<f64>,
}

impl TimedRun {
    /// Returns the kernel's title in the lab's first line.
    pub(super) fn kernel(&self) -> &str {
        let mut titles = self.messages.lines().filter_map(|line| {
            let line = line.strip_prefix("lab: ")?;
            line.starts_with("Linux ")
                .then_some(line.split(',').next()?)
        });
        titles.next_back().unwrap_or("unknown kernel")
    }
}

/// Runs and measures the command. No other child of this process may end meanwhile.
pub(super) fn take_time(command: &mut Command) -> Result<TimedRun> {
    let mut messages = tempfile::tempfile().context("cannot make a temporary file")?;
    let stderr = messages.try_clone().context("cannot share a file")?;
    let (cpu, started) = (children()?, Instant::now());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let mut first_line = None;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            line.context("cannot read a child's output")?;
            first_line.get_or_insert_with(|| started.elapsed().as_secs_f64());
        }
    }
    let status = child.wait().context("cannot wait for a child")?;
    let wall = started.elapsed().as_secs_f64();
    let cpu = children()? - cpu;
    let mut text = String::new();
    messages.rewind().context("cannot read a file again")?;
    messages
        .read_to_string(&mut text)
        .context("cannot read messages")?;
    ensure!(status.success(), "{status}: {text}");
    Ok(TimedRun {
        messages: text,
        cpu,
        wall,
        first_line,
    })
}

/// Returns the CPU time of all children that have ended, and of their children, in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of CPU time, far below 2^53"
)]
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot tell the CPU time")?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_microseconds() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_one_that_the_lab_names() {
        let run = TimedRun {
            messages: "lab: preparing\n\
                       lab: Linux 6.12.1, QEMU 7.2.22 (the cache's own), 2 CPUs\n\
                       lab: exit status 0; 0.4 s, 0.5 s of CPU, from a saved state, retries 0\n"
                .to_owned(),
            cpu: 0.5,
            wall: 0.4,
            first_line: None,
        };
        assert_eq!(run.kernel(), "Linux 6.12.1");
    }

    #[test]
    fn a_run_has_the_cpu_time_of_the_children_of_its_child() {
        let mut command = Command::new("/bin/sh");
        // `times` prints the time of the shell, and on a second line the time of its children.
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        command.args(["-c", &format!("sh -c '{count}'; times >&2")]);
        let run = take_time(&mut command).unwrap();
        let children = run.messages.lines().nth(1).unwrap();
        let (minutes, seconds) = children.split_once('m').unwrap();
        let seconds: f64 = seconds.split_once('s').unwrap().0.parse().unwrap();
        let seconds = minutes.parse::<f64>().unwrap() * 60.0 + seconds;
        assert!(seconds > 0.0 && run.cpu >= seconds, "{run:?}");
    }

    #[test]
    fn the_first_of_two_lines_comes_before_the_end() {
        let mut command = Command::new("/bin/sh");
        let run = take_time(command.args(["-c", "echo; sleep 0.1; echo"])).unwrap();
        assert!(run.first_line.unwrap() < run.wall, "{run:?}");
        let mut command = Command::new("/bin/true");
        assert_eq!(take_time(&mut command).unwrap().first_line, None);
    }

    #[test]
    fn a_run_that_fails_says_what_the_lab_said() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo 'lab: no space' >&2; exit 125"]);
        let error = take_time(&mut command).unwrap_err().to_string();
        assert!(
            error.contains("125") && error.contains("lab: no space"),
            "{error}"
        );
    }
}
