//! One side of an interleaved comparison: a vmbell, this one or another, whose `bench` runs as a child process once per
//! turn and prints its report as JSON.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::output::text::lines_of;
use crate::process::{self, ProgramEnd, ProgramTask};
use vmbell_bench::CommandLimit;
use vmbell_report::{ReadError, Report};

/// The maximum number of bytes of a report: 100 rows with 1000 samples each take a tenth of this.
const MOST: usize = 64 << 20;
/// How long a `bench` may take after its own time limit.
const GRACE: Duration = Duration::from_secs(60);

/// A vmbell and the arguments of its `bench`.
#[derive(Debug)]
pub(super) struct InterleavedSide {
    /// `old` or `new`.
    pub(super) name: &'static str,
    words: Vec<OsString>,
    limit: Duration,
}

/// Why a side gave no report.
#[derive(Debug, thiserror::Error)]
pub(super) enum SideError {
    /// A signal asked the command to end.
    #[error("a signal ended it")]
    Stopped,
    /// The program cannot be run.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: String,
        /// Why the program cannot be run.
        source: io::Error,
    },
    /// The program exited without printing a report.
    #[error("{program} ended with {status}: {last}")]
    Ended {
        /// The program.
        program: String,
        /// The program's exit status.
        status: ExitStatus,
        /// The last line of the program's messages.
        last: String,
    },
    /// The program did not end.
    #[error("{program} did not end within {limit:?}")]
    Limit {
        /// The program.
        program: String,
        /// The time limit.
        limit: Duration,
    },
    /// The program printed too much.
    #[error("{program} printed more than {MOST} bytes")]
    TooMuch {
        /// The program.
        program: String,
    },
    /// The program's output is not a report.
    #[error("cannot read the output of {program}")]
    Report {
        /// The program.
        program: String,
        /// Why the output is not a report.
        source: ReadError,
    },
}

impl InterleavedSide {
    /// A side that runs `bench` with these options. `vmbell` is the command and its first arguments. `timeout` is
    /// `bench`'s own limit; zero means no limit.
    pub(super) fn new(
        name: &'static str,
        vmbell: Vec<OsString>,
        options: &[OsString],
        timeout: Duration,
    ) -> Self {
        let mut words = vmbell;
        words.extend(["bench", "--export-json=-", "--style=none"].map(OsString::from));
        words.extend_from_slice(options);
        let limit = match timeout {
            Duration::ZERO => Duration::MAX,
            timeout => timeout + GRACE,
        };
        Self { name, words, limit }
    }

    /// Measures once.
    pub(super) fn measure(&self, stop: &CommandLimit) -> Result<Report, SideError> {
        let program = self.words[0].to_string_lossy().into_owned();
        let ended = process::run(&ProgramTask {
            most: MOST,
            ..ProgramTask::new(&self.words, self.limit, stop)
        });
        let ended = match ended {
            Ok(ended) => ended,
            Err(source) => return Err(SideError::Run { program, source }),
        };
        let status = match ended.end {
            ProgramEnd::Exited(status) => status,
            ProgramEnd::Stopped => return Err(SideError::Stopped),
            ProgramEnd::TooMuch => return Err(SideError::TooMuch { program }),
            ProgramEnd::TimeLimit | ProgramEnd::Lingered | ProgramEnd::Spun => {
                let limit = self.limit;
                return Err(SideError::Limit { program, limit });
            }
        };
        let text = String::from_utf8_lossy(&ended.output);
        // A failed row makes the status 1, but the report has the others.
        if text.trim().is_empty() {
            let last = last_words(&ended.errors);
            return Err(SideError::Ended {
                program,
                status,
                last,
            });
        }
        vmbell_report::parse(&text).map_err(|source| SideError::Report { program, source })
    }
}

/// The first error in a program's messages, otherwise its last line.
fn last_words(errors: &[u8]) -> String {
    let lines = lines_of(errors);
    let error = lines.iter().find(|line| line.starts_with("error"));
    let line = error.or(lines.last());
    line.cloned()
        .unwrap_or_else(|| "it printed nothing".to_owned())
}

#[cfg(test)]
#[path = "side_test.rs"]
mod tests;
