//! Runs a child process whose output is shown as it arrives, and also kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

/// How a child process ended, with its output.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `command` until it ends.
pub(crate) fn run(command: &mut Command) -> Result<Finished> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let stdout = child
        .stdout
        .take()
        .map(|pipe| copy(pipe, std::io::stdout()));
    let stderr = child
        .stderr
        .take()
        .map(|pipe| copy(pipe, std::io::stderr()));
    let status = child.wait().context("cannot wait for a child")?;
    Ok(Finished {
        status,
        stdout: text(stdout)?,
        stderr: text(stderr)?,
    })
}

type Copy = JoinHandle<std::io::Result<Vec<u8>>>;

/// Copies line by line, so that the two streams do not split each other's lines.
fn copy(pipe: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> Copy {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let (mut all, mut line) = (Vec::new(), Vec::new());
        while pipe.read_until(b'\n', &mut line)? > 0 {
            to.write_all(&line)?;
            to.flush()?;
            all.append(&mut line);
        }
        Ok(all)
    })
}

fn text(copy: Option<Copy>) -> Result<String> {
    let copied = copy.ok_or_else(|| anyhow!("a stream is missing"))?.join();
    let bytes = copied.map_err(|_| anyhow!("a copying thread panicked"))?;
    Ok(String::from_utf8_lossy(&bytes.context("cannot copy a child's output")?).into_owned())
}
