//! Why a command to a VM has no result: by the type, it is known whether the VMM is to blame.

use std::io::{self, ErrorKind};
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
    Err(broke(process, stop, &error.to_string()))
}

/// The result of a transfer to or from a VMM. If the VMM has ended, the error has its last words.
pub(super) fn transferred<T>(
    process: &mut RunningProgram,
    stop: &CommandLimit,
    what: &str,
    result: io::Result<T>,
) -> Result<T, VmError> {
    result.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => VmError::TimedOut(what.to_owned()),
        _ => broke(process, stop, &format!("{what}: {error}")),
    })
}

/// The VMM broke a connection.
fn broke(process: &mut RunningProgram, stop: &CommandLimit, error: &str) -> VmError {
    // Its last words may come after the connection broke. They only explain, so it does not matter if they do not come.
    let _ = process.until_output(|_| false, &mut TimeLeft::new(EXIT), stop);
    let words = process.printed().into_iter().rev().find_map(last_words);
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    VmError::Vmm(format!("{error}{words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_transfer_has_the_last_words_of_a_vmm_that_ended() {
        let words = ["sh", "-c", "echo KVM internal error >&2"].map(Into::into);
        let mut process = RunningProgram::start(&words, 1000, &[]).unwrap();
        let stop = CommandLimit::none();
        let mut time = TimeLeft::new(Duration::from_secs(60));
        process.until_output(|_| false, &mut time, &stop).unwrap();
        for (kind, expected) in [
            (
                ErrorKind::BrokenPipe,
                "send: broken pipe: KVM internal error",
            ),
            (ErrorKind::WouldBlock, "send: no end within 5s"),
        ] {
            let failed: Result<(), _> = transferred(&mut process, &stop, "send", Err(kind.into()));
            assert_eq!(failed.unwrap_err().to_string(), expected);
        }
    }
}
