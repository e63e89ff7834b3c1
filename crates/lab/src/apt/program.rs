//! Runs one program to its end and watches it. The thread that prepares runs this.

use std::borrow::Cow;
use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{LabError, cannot, failed};
use crate::unfinished::{self, UnfinishedProgram};

/// A program that has ended.
pub(super) struct FinishedProgram {
    name: String,
    pub(super) output: Output,
}

impl FinishedProgram {
    pub(super) fn stdout(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.output.stdout)
    }

    /// Returns why the program failed.
    pub(super) fn reason(&self) -> String {
        reason(&String::from_utf8_lossy(&self.output.stderr))
    }

    /// Returns an error if the program failed.
    pub(super) fn succeeded(self) -> Result<Self, LabError> {
        let status = self.output.status;
        match status.success() {
            true => Ok(self),
            false => Err(failed!(
                "{} failed ({status}): {}",
                self.name,
                self.reason()
            )),
        }
    }
}

/// Runs a program, called `name` in errors. `watch` is called with the elapsed time; if it returns an error, the
/// program is killed.
pub(super) fn run(
    command: &Command,
    name: &str,
    watch: impl FnMut(Duration) -> Result<(), LabError>,
) -> Result<FinishedProgram, LabError> {
    let failed = |error| cannot("run", command.get_program())(error);
    let spawned = unfinished::spawn(command, Stdio::piped(), Stdio::piped());
    Ok(FinishedProgram {
        name: name.to_owned(),
        output: finish(spawned.map_err(failed)?, watch, failed)?,
    })
}

/// Waits for the end of the program and reads its output.
fn finish(
    (mut child, running): (Child, UnfinishedProgram),
    mut watch: impl FnMut(Duration) -> Result<(), LabError>,
    failed: impl Fn(io::Error) -> LabError,
) -> Result<Output, LabError> {
    let began = Instant::now();
    let read = [
        child.stdout.take().map(|pipe| read(Box::new(pipe))),
        child.stderr.take().map(|pipe| read(Box::new(pipe))),
    ];
    // Both pipes close when the program ends.
    while read.iter().flatten().any(|thread| !thread.is_finished()) {
        if let Err(error) = watch(began.elapsed()) {
            running.kill();
            running.wait(&mut child).map_err(&failed)?;
            return Err(error);
        }
        thread::sleep(Duration::from_millis(20));
    }
    let status = running.wait(&mut child).map_err(&failed)?;
    let [stdout, stderr] = read.map(|thread| {
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    });
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

fn read(mut pipe: Box<dyn Read + Send>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// Returns the first errors in apt's output, in one line, or its warnings if there are no errors.
fn reason(text: &str) -> String {
    let lines = |prefix| {
        text.lines()
            .filter(move |line: &&str| line.starts_with(prefix))
            .map(str::trim)
    };
    let mut picked: Vec<&str> = lines("E:").chain(lines("W:")).take(2).collect();
    if picked.is_empty() {
        picked = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(2)
            .collect();
    }
    picked.join("; ")
}
