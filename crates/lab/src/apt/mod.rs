//! Downloads packages with the distribution's own client, without root and without changing the system.
//!
//! `apt-get` runs with a state folder of the lab and a package database that has one placeholder
//! package, which "provides" what the lab never runs (firmware for network boot, sound, initramfs
//! tools): so apt's own solver finds a small set of packages that is complete. apt uses the system's sources,
//! keys and network settings, but not its hooks, which write where only root may. Each downloaded file is
//! compared with the digest of the signed index once more before `dpkg-deb -x` unpacks it.

mod client;
mod package;
mod program;
mod sources;
mod state;

use crate::FileError;
use std::io;

pub use client::Apt;
pub use package::Package;

/// An error of the distribution's package client, or of its use.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// The distribution has no apt.
    #[error(
        "no {program} on this system, so the lab cannot download {wanted}: give it {option} instead"
    )]
    NoClient {
        /// The missing program.
        program: &'static str,
        /// What the program would have downloaded.
        wanted: &'static str,
        /// The command-line option that makes the download unnecessary.
        option: &'static str,
    },
    /// The client cannot be started.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The client failed.
    #[error("{command} failed ({status}): {reason}")]
    Failed {
        /// The client's name and subcommand.
        command: String,
        /// The client's exit status.
        status: String,
        /// The errors that the client printed.
        reason: String,
    },
    /// A fetch of the indexes failed, and those that arrived do not have the packages.
    #[error("cannot fetch the package indexes: {reason}")]
    NoIndexes {
        /// The errors that the client printed.
        reason: String,
    },
    /// No index was fetched because none can be verified.
    #[error(
        "cannot verify Debian's package indexes without {keyring}: install the package debian-archive-keyring"
    )]
    NoKeyring {
        /// The file of keys.
        keyring: &'static str,
    },
    /// Nothing came from the package sources.
    #[error("cannot fetch the package indexes: no answer within {} s", time.as_secs())]
    Silent {
        /// How long the client was waited for.
        time: std::time::Duration,
    },
    /// No alternative package is in the package sources.
    #[error("the package sources do not have {}: {reason}", names.join(" or "))]
    NotFound {
        /// The packages, best first.
        names: Vec<String>,
        /// The client's error for the last of them.
        reason: String,
    },
    /// The client's output cannot be parsed.
    #[error(
        "apt-get printed {line:?} where a package's address, file, size and SHA-256 were expected"
    )]
    Answer {
        /// The line.
        line: String,
    },
    /// A package is still broken after several downloads.
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
    #[error(transparent)]
    File(#[from] FileError),
}
