//! Why packages cannot be had.

use std::io;
use std::path::PathBuf;

/// What went wrong between the distribution's package client and the lab.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// Another distribution.
    #[error(
        "no {program} on this system, so the lab cannot download {wanted}: give it {option} instead"
    )]
    NoClient {
        /// The program that is not there.
        program: &'static str,
        /// What it would have fetched.
        wanted: &'static str,
        /// The command line's way around.
        option: &'static str,
    },
    /// The client cannot be started.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The client failed.
    #[error("{command} failed ({status}): {reason}")]
    Failed {
        /// Its name and subcommand.
        command: String,
        /// Its exit status.
        status: String,
        /// The errors it printed.
        reason: String,
    },
    /// None of the packages that would do is known.
    #[error("the package sources have none of {}: {reason}", names.join(", "))]
    NotFound {
        /// The packages, best first.
        names: Vec<String>,
        /// What the client said of the last.
        reason: String,
    },
    /// The client's answer is not understood.
    #[error(
        "apt-get printed {line:?} where a package's address, file, size and SHA-256 were expected"
    )]
    Answer {
        /// The line.
        line: String,
    },
    /// Some packages stay broken after several downloads.
    #[error("{file} is broken after {attempts} downloads: {reason}")]
    Broken {
        /// The package file.
        file: String,
        /// How often it was fetched.
        attempts: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl AptError {
    /// For `map_err` on file operations.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
