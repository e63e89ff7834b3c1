//! Why a command to a VM has no result: by the type, it is known whether the VMM is to blame.

use std::io::ErrorKind;
use std::time::Duration;

use super::COMMAND;
use crate::output::text::last_words;
use crate::process::{RunningProgram, TimeLeft};
use vmbell_bench::CommandLimit;
use vmbell_sweep::api::ApiError;

/// How long a VMM whose connection broke may take to exit.
const EXIT: Duration = Duration::from_millis(200);

/// Why a command to a VM has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VmError {
    /// The VMM refused it, ended, or broke the protocol.
    #[error("{0}")]
    Vmm(String),
    /// It did not end in time.
    #[error("{0}: no end within {COMMAND:?}")]
    TimedOut(String),
    /// The sweep has to stop.
    #[error("the sweep was stopped")]
    Stopped,
    /// This host failed.
    #[error(transparent)]
    Host(#[from] anyhow::Error),
}

impl VmError {
    /// The VMM broke its end of a stream.
    pub(super) fn broken(what: &str, source: &std::io::Error) -> Self {
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::TimedOut(what.to_owned()),
            _ => Self::Vmm(format!("{what}: {source}")),
        }
    }
}

/// The result of a command to a VMM. If the VMM has ended, the error has its last words.
pub(super) fn answered<T>(
    process: &mut RunningProgram,
    stop: &CommandLimit,
    result: Result<T, ApiError>,
) -> Result<T, VmError> {
    let error = match result {
        Ok(value) => return Ok(value),
        Err(ApiError::TimedOut { command, .. }) => return Err(VmError::TimedOut(command)),
        Err(error @ ApiError::Refused { .. }) => return Err(VmError::Vmm(error.to_string())),
        Err(error) => error,
    };
    // Its last words may come after the connection broke. They only explain, so it does not matter if they do not come.
    let _ = process.until_output(|_| false, &mut TimeLeft::new(EXIT), stop);
    let words = process.printed().into_iter().rev().find_map(last_words);
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    Err(VmError::Vmm(format!("{error}{words}")))
}
