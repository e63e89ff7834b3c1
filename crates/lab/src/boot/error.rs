//! Why L1 gave no answer.

use std::io;
use std::time::Duration;

/// What went wrong with one boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// QEMU cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The first word of the command line.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A channel or a thread failed.
    #[error("cannot {action}")]
    Channel {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The time limit.
    #[error("L1 did not finish within {} s; its console ends with:\n{console}", limit.as_secs())]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// The last lines of the console.
        console: String,
    },
    /// The kernel gave up.
    #[error("L1's kernel panicked in each of {boots} boots; its console ends with:\n{console}")]
    Panic {
        /// How often it was started.
        boots: u32,
        /// The last lines of the console.
        console: String,
    },
    /// QEMU ended and nothing was heard from L1.
    #[error("QEMU ended ({status}) without a report from L1: {said}")]
    NoReport {
        /// QEMU's exit status, decoded.
        status: String,
        /// Its error output, or else the last lines of the console.
        said: String,
    },
    /// L1 has no such program, or it is not executable.
    #[error("L1: {reason}")]
    Program {
        /// What L1's init says.
        reason: String,
    },
    /// The files that came back are broken.
    #[error("cannot unpack the files from L1 into {}", folder.display())]
    Files {
        /// Where they were to go.
        folder: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BootError {
    /// For `map_err` on channel operations.
    pub(crate) fn channel(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Channel { action, source }
    }
}
