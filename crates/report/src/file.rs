//! The destination of an export: stdout, a device or pipe, or a file that is replaced as a whole.
//!
//! The file is opened before anything is measured, so that a bad path is found at once and not after
//! minutes. It is renamed into place at the end, so that half a report is never read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The destination could not be opened or created.
    #[error("cannot write to '{}'", path.display())]
    Open {
        /// The path as the user gave it.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// The path is that of a directory.
    #[error("cannot write to '{}': it is a directory", .0.display())]
    Directory(PathBuf),
    /// Writing or renaming the file failed.
    #[error("cannot finish '{}'", path.display())]
    Write {
        /// The path as the user gave it.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

/// A destination that has been opened.
#[derive(Debug)]
pub struct Export {
    path: PathBuf,
    to: Destination,
}

#[derive(Debug)]
enum Destination {
    Stdout,
    /// A device or a pipe, which is written directly: there is nothing to rename.
    Direct(File),
    /// A regular file: its path with symbolic links resolved, and the temporary file beside it.
    Renamed {
        target: PathBuf,
        temporary: NamedTempFile,
    },
}

impl Export {
    /// Opens the destination `path`; `-` is stdout.
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
                // A symbolic link is kept, and the file that it points to is replaced.
                Ok(_) => renamed(fs::canonicalize(path).map_err(failed)?).map_err(failed)?,
                Err(_) => renamed(path.to_owned()).map_err(failed)?,
            }
        };
        Ok(Self {
            path: path.to_owned(),
            to,
        })
    }

    /// Whether the destination is stdout.
    pub const fn is_stdout(&self) -> bool {
        matches!(self.to, Destination::Stdout)
    }

    /// Writes `text` and, for a regular file, renames the temporary file into place.
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
                    // The reader of a pipe may close it early (`head`): that is not an error.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    other => other.map_err(failed),
                }
            }
            Destination::Direct(mut file) => file.write_all(text.as_bytes()).map_err(failed),
            Destination::Renamed { target, temporary } => {
                replace(temporary, &target, text).map_err(failed)
            }
        }
    }
}

fn renamed(target: PathBuf) -> io::Result<Destination> {
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // The name is one of chance: a process that was killed leaves its own behind, and in a container the next one has the
    // same number. The permissions are those of any new file, as other users read reports.
    let temporary = tempfile::Builder::new()
        .prefix(".vmbell-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    Ok(Destination::Renamed { target, temporary })
}

/// Writes the whole text before the file gets its name.
fn replace(mut temporary: NamedTempFile, target: &Path, text: &str) -> io::Result<()> {
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    temporary.persist(target)?;
    Ok(())
}

#[cfg(test)]
#[path = "file_test.rs"]
mod tests;
