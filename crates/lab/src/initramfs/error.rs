//! Why a program or a file cannot be taken into L1.

use std::io;
use std::path::PathBuf;

/// What is wrong with what L1 is to hold.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
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
    /// A name that the archive format or the crate that writes it cannot hold.
    #[error("{path:?} is not UTF-8, so it cannot go into the lab's file tree")]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// Sizes are 32 bits in a newc archive.
    #[error("{} has {size} bytes, and a file in the lab must be smaller than 4 GiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// Links that lead nowhere.
    #[error("{} leads through too many symbolic links", path.display())]
    Links {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// No such command.
    #[error("no program {name} on PATH")]
    NoProgram {
        /// Its name.
        name: String,
    },
    /// Something that only its interpreter can run.
    #[error("{} is a script ({interpreter}): run its interpreter in the lab and add the script with --with", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// What its first line asks for.
        interpreter: String,
    },
    /// Not executable in L1.
    #[error("{} is no ELF program for {arch}: it is {found}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What the lab runs.
        arch: &'static str,
        /// What it is.
        found: String,
    },
    /// A library that is not where the loader would look.
    #[error(
        "{} needs {library}, which is in none of the loader's folders: set LD_LIBRARY_PATH, or link the program statically \
         (Rust: RUSTFLAGS='-C target-feature=+crt-static'; C: -static)",
        object.display()
    )]
    NoLibrary {
        /// The program or library that needs it.
        object: PathBuf,
        /// The library's name.
        library: String,
    },
}

impl InitramfsError {
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
