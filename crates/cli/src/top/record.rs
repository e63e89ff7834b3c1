//! `--record`: a header line with the format and the host, and then a line of JSON per reading, for `vmbell report`.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};

use vmbell_bench::host;
use vmbell_report::{RecordingHeader, rfc3339};

/// A file that lines are appended to.
#[derive(Debug)]
pub(super) struct Recorder {
    file: File,
    path: PathBuf,
}

impl Recorder {
    /// Replaces the file with a new recording.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path);
        let file = file.with_context(|| format!("cannot record to '{}'", path.display()))?;
        let mut recorder = Self { file, path };
        let started = rfc3339(SystemTime::now());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let header = RecordingHeader::new(started, version, host::probe());
        let header = serde_json::to_string(&header).context("cannot write JSON")?;
        recorder.add(&(header + "\n"))?;
        Ok(recorder)
    }

    /// Appends a line and flushes it, so that a killed recorder leaves complete lines.
    pub(super) fn add(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(line.as_bytes());
        written.with_context(|| format!("cannot record to '{}'", self.path.display()))
    }
}
