//! The destination of an export: stdout, a device or pipe, or a file that is replaced as a whole.
//!
//! The file is opened before anything is measured, so that a bad path is found at once. It gets its name at the end, so
//! that half a report is never read and a process that is killed leaves nothing behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;
use tempfile::{Builder, NamedTempFile, TempPath};

/// The maximum number of symbolic links that are followed, as in the kernel.
const LINKS: usize = 40;

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
    /// The path is a directory.
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
    to: ExportTarget,
}

#[derive(Debug)]
enum ExportTarget {
    Stdout,
    /// A device or a pipe. It is written directly, because there is nothing to rename.
    Direct(File),
    /// A regular file: its path with symbolic links resolved, and the temporary file that will get this name.
    Replaced {
        target: PathBuf,
        by: Temporary,
    },
}

/// A file that does not have its final name yet.
#[derive(Debug)]
enum Temporary {
    /// The file disappears with its last descriptor.
    Unnamed(File),
    /// Used on file systems on which every file must have a name.
    Named(NamedTempFile),
}

impl Export {
    /// Opens the destination `path`; `-` is stdout.
    pub fn open(path: &Path) -> Result<Self, ExportError> {
        let failed = |source| ExportError::Open {
            path: path.to_owned(),
            source,
        };
        let to = if path == Path::new("-") {
            ExportTarget::Stdout
        } else {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => {
                    return Err(ExportError::Directory(path.to_owned()));
                }
                Ok(metadata) if !metadata.is_file() => {
                    ExportTarget::Direct(OpenOptions::new().write(true).open(path).map_err(failed)?)
                }
                // A symbolic link is kept; the file that it points to is replaced or created.
                _ => replaced(target(path).map_err(failed)?).map_err(failed)?,
            }
        };
        Ok(Self {
            path: path.to_owned(),
            to,
        })
    }

    /// Whether the destination is stdout.
    pub const fn is_stdout(&self) -> bool {
        matches!(self.to, ExportTarget::Stdout)
    }

    /// Writes `text` and, for a regular file, gives the file its name.
    pub fn finish(self, text: &str) -> Result<(), ExportError> {
        let failed = |source| ExportError::Write {
            path: self.path.clone(),
            source,
        };
        match self.to {
            ExportTarget::Stdout => {
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
            ExportTarget::Direct(mut file) => file.write_all(text.as_bytes()).map_err(failed),
            ExportTarget::Replaced { target, by } => by.become_file(&target, text).map_err(failed),
        }
    }
}

/// The path at the end of all symbolic links, whether anything exists there or not.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(to) = fs::read_link(&path) else {
            return Ok(path);
        };
        path = folder(&path).join(to);
    }
    Err(Errno::LOOP.into())
}

/// The folder of this path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn replaced(target: PathBuf) -> io::Result<ExportTarget> {
    let folder = folder(&target);
    // The permissions are those of any new file, because other users read reports.
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let by = match openat(CWD, folder, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Temporary::Unnamed(file.into()),
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::ISDIR) => {
            Temporary::Named(names().tempfile_in(folder).map_err(nameless)?)
        }
        Err(errno) => return Err(errno.into()),
    };
    Ok(ExportTarget::Replaced { target, by })
}

/// Random names: a killed process may have left its file, and in a container the next process has the same number.
fn names() -> Builder<'static, 'static> {
    let mut names = Builder::new();
    names
        .prefix(".vmbell-")
        .permissions(fs::Permissions::from_mode(0o666));
    names
}

impl Temporary {
    /// Writes the whole text before the file gets its name.
    fn become_file(self, target: &Path, text: &str) -> io::Result<()> {
        match self {
            Self::Unnamed(mut file) => {
                write(&mut file, text, target)?;
                match link(&file, target) {
                    // A file without a name cannot replace another file; it needs its own name first.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        let named = names().make_in(folder(target), |path| link(&file, path));
                        let named = named.map_err(nameless)?;
                        rename(named.into_temp_path(), target)
                    }
                    linked => linked,
                }
            }
            Self::Named(mut file) => {
                write(file.as_file_mut(), text, target)?;
                rename(file.into_temp_path(), target)
            }
        }
    }
}

/// The error without the random name, which means nothing to the user.
fn nameless(error: io::Error) -> io::Error {
    error.kind().into()
}

/// Writes the text to a file that will replace `target`, with the permissions of `target`.
fn write(file: &mut File, text: &str, target: &Path) -> io::Result<()> {
    if let Ok(metadata) = fs::metadata(target) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn rename(from: TempPath, target: &Path) -> io::Result<()> {
    Ok(from.persist(target)?)
}

/// Gives this name to a file without one (open(2), `O_TMPFILE`).
fn link(file: &File, name: &Path) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
#[path = "file_test.rs"]
mod tests;
