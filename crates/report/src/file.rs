//! Where an export goes: a file that is either the old one or the whole new one, or stdout.
//!
//! The file is opened before anything is measured, so that a bad path costs no minute of measuring,
//! and renamed into place at the end, so that nobody ever reads half a report.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No file can be made there.
    #[error("cannot write to '{}'", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The path is a directory's.
    #[error("cannot write to '{}': it is a directory", .0.display())]
    Directory(PathBuf),
    /// Writing or renaming failed.
    #[error("cannot finish '{}'", path.display())]
    Write {
        /// The path as given.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// An opened destination.
#[derive(Debug)]
pub struct Export {
    path: PathBuf,
    to: Destination,
}

#[derive(Debug)]
enum Destination {
    Stdout,
    /// A device or a pipe: there is nothing to rename.
    Direct(File),
    /// A regular file: its real path and the new one beside it.
    Renamed {
        target: PathBuf,
        temporary: Temporary,
    },
}

impl Export {
    /// Opens `path`; `-` is stdout.
    pub fn open(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Open {
            path: path.to_owned(),
            source,
        };
        let to = if path == Path::new("-") {
            Destination::Stdout
        } else {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => {
                    return Err(ExportError::Directory(path.to_owned()));
                }
                Ok(metadata) if !metadata.is_file() => {
                    Destination::Direct(OpenOptions::new().write(true).open(path).map_err(failed)?)
                }
                // A link keeps pointing where it does: what it points to is replaced.
                Ok(_) => renamed(fs::canonicalize(path).map_err(failed)?).map_err(failed)?,
                Err(_) => renamed(path.to_owned()).map_err(failed)?,
            }
        };
        Ok(Self {
            path: path.to_owned(),
            to,
        })
    }

    /// Whether it is stdout.
    pub const fn is_stdout(&self) -> bool {
        matches!(self.to, Destination::Stdout)
    }

    /// Writes `text` and puts the file in place.
    pub fn finish(self, text: &str) -> Result<(), ExportError> {
        let failed = |source| ExportError::Write {
            path: self.path.clone(),
            source,
        };
        match self.to {
            Destination::Stdout => {
                let mut stdout = io::stdout().lock();
                match stdout
                    .write_all(text.as_bytes())
                    .and_then(|()| stdout.flush())
                {
                    // A reader that has seen enough is no error.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    other => other.map_err(failed),
                }
            }
            Destination::Direct(mut file) => file.write_all(text.as_bytes()).map_err(failed),
            Destination::Renamed { target, temporary } => {
                temporary.replace(&target, text).map_err(failed)
            }
        }
    }
}

fn renamed(target: PathBuf) -> io::Result<Destination> {
    let temporary = Temporary::beside(&target)?;
    Ok(Destination::Renamed { target, temporary })
}

/// A file that goes away unless it is put in place.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn beside(target: &Path) -> io::Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let path = target.with_file_name(hidden);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self { path, file })
    }

    fn replace(mut self, target: &Path, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()?;
        fs::rename(&self.path, target)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is nothing left of this name, which is well.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[path = "file_test.rs"]
mod tests;
