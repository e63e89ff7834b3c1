//! What the process ends with.

use std::process::ExitCode;

/// The ends of a command; `--help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// All good.
    Good = 0,
    /// Something failed.
    Failed = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// Everything was skipped: the code that automake and kvm-unit-tests use.
    Skipped = 77,
    /// The command's own time limit: the code of `timeout(1)`.
    TimedOut = 124,
    /// SIGINT, after writing what is finished.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error in the arguments that is found after parsing them.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Usage(Box<dyn std::error::Error + Send + Sync>);

impl Usage {
    pub(super) fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}
