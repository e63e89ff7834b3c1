//! The errors of a boot.

use std::io;
use std::time::Duration;

/// An error of one boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// QEMU cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The first word of the command line.
        program: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A channel or a thread failed.
    #[error("cannot {action}")]
    Channel {
        /// The operation, a verb with its object.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// L1 did not finish within the time limit.
    #[error("L1 did not finish within {} s; its console ends with:\n{console}", limit.as_secs())]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// The last lines of the console.
        console: String,
    },
    /// L1's kernel panicked.
    #[error("L1's kernel panicked in each of {boots} boots; its console ends with:\n{console}")]
    Panic {
        /// How often L1 was booted.
        boots: u32,
        /// The last lines of the console.
        console: String,
    },
    /// QEMU ended without a report from L1.
    #[error("QEMU ended ({status}) without a report from L1: {said}")]
    NoReport {
        /// QEMU's exit status, decoded.
        status: String,
        /// QEMU's error output, or else the last lines of the console.
        said: String,
    },
    /// L1 has no such program, or it is not executable.
    #[error("L1: {reason}")]
    Program {
        /// The error of L1's init.
        reason: String,
    },
    /// The files from L1 cannot be unpacked.
    #[error("cannot unpack the files from L1 into {}", folder.display())]
    Files {
        /// The folder for the files.
        folder: std::path::PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl BootError {
    /// For `map_err` on channel operations.
    pub(crate) fn channel(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Channel { action, source }
    }
}
