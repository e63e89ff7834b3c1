//! The errors of building modules.

use std::io;
use std::path::PathBuf;

use super::super::apt::AptError;

/// An error of building modules for one kernel.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// The kernel is not from a package of the distribution.
    #[error("cannot build modules for Linux {release}: its name does not end in -{flavour}")]
    Release {
        /// The kernel's release.
        release: String,
        /// How a package of the distribution ends.
        flavour: String,
    },
    /// The package sources have no headers of this kernel.
    #[error("cannot build modules for Linux {release}: there are no headers of it")]
    NoHeaders {
        /// The kernel's release.
        release: String,
        /// What the package client says.
        source: AptError,
    },
    /// The headers' package is not built as expected.
    #[error("cannot build modules for Linux {release}: its headers have no {what}")]
    Headers {
        /// The kernel's release.
        release: String,
        /// What is missing.
        what: &'static str,
    },
    /// The kernel's source lacks a file.
    #[error("{} has no {file}", archive.display())]
    Source {
        /// The archive of the source.
        archive: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// The compiler or `make` failed.
    #[error("cannot build modules for Linux {release} ({status}): {reason}")]
    Make {
        /// The kernel's release.
        release: String,
        /// The exit status of `make`.
        status: String,
        /// The first errors that were printed.
        reason: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation, a verb.
        action: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ModulesError {
    /// For `map_err` on file operations.
    pub(super) fn io(
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
