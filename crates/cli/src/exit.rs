//! The exit statuses of the process.

use std::process::ExitCode;

use super::interrupt;

/// How a command ends; `--help` documents the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything succeeded.
    Good = 0,
    /// Something failed.
    Failed = 1,
    /// The arguments are wrong.
    Usage = 2,
    /// What ran shows neither success nor failure: a sweep in which nothing was open.
    Inconclusive = 3,
    /// This host, or this user's rights, do not allow what was asked for. sysexits.h calls it EX_UNAVAILABLE.
    Unavailable = 69,
    /// Everything was skipped. automake and kvm-unit-tests use the same status.
    Skipped = 77,
    /// The command's own time limit ran out. `timeout(1)` uses the same status.
    TimedOut = 124,
    /// The lab failed and has printed why. `vmbell lab` uses the same status.
    Lab = 125,
    /// A signal asked the command to end; finished results were written. The status is 128 plus the signal's number:
    /// 130 for SIGINT.
    Interrupted = 128,
}

impl Exit {
    /// The status itself.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Interrupted => self as u8 + interrupt::signal(),
            _ => self as u8,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

/// An error of [`Exit::Unavailable`].
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Unavailable(Box<dyn std::error::Error + Send + Sync>);

impl Unavailable {
    pub(super) fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// An error in the arguments that is found only after they were parsed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Usage(Box<dyn std::error::Error + Send + Sync>);

impl Usage {
    pub(super) fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

/// Prints the error or the help of this command, or of another one that it parsed arguments for.
pub(super) fn refused(error: &clap::Error) -> ExitCode {
    // If stdout is closed, no one reads this.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
