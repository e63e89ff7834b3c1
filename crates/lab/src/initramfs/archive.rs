//! Writes a newc cpio archive (Linux `Documentation/driver-api/early-userspace/buffer-format.rst`): folders before
//! their files, every path once.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use cpio::newc::{Builder, trailer};

use super::{Closure, LibrarySearch};
use crate::error::{LabError, cannot, failed};

const FOLDER: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER: u32 = 0o020_600;

/// The maximum number of symbolic links that the kernel follows in a path.
const MAX_LINKS: u32 = 40;

/// The length of an entry's header.
const HEADER: u64 = 110;

/// An archive that is being written.
#[derive(Debug)]
pub struct Archive<W> {
    output: W,
    seen: BTreeSet<PathBuf>,
    /// The length of all entries in bytes.
    length: u64,
    /// The maximum number of bytes to write. Entries beyond that are only counted, and the host's files not read.
    room: u64,
}

impl<W: Write> Archive<W> {
    /// Starts an archive.
    pub fn new(output: W) -> Self {
        Self::within(output, u64::MAX)
    }

    /// Starts an archive that is useless if its [`length`](Self::length) exceeds `room` bytes.
    pub fn within(output: W, room: u64) -> Self {
        Self {
            output,
            seen: BTreeSet::new(),
            length: 0,
            room,
        }
    }

    /// Returns the length of all entries in bytes, including entries that were not written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds a folder and all its parents.
    pub fn folder(&mut self, path: &Path) -> Result<(), LabError> {
        let mut so_far = PathBuf::new();
        for part in path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
        {
            so_far.push(part);
            if !self.seen.contains(&so_far) {
                self.write(&so_far.clone(), FOLDER, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    /// Adds a regular file.
    pub fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) -> Result<(), LabError> {
        self.leaf(path, REGULAR | (permissions & 0o7777), (0, 0), content)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &Path, target: &Path) -> Result<(), LabError> {
        self.leaf(path, LINK, (0, 0), target.as_os_str().as_encoded_bytes())
    }

    /// Adds a character device.
    pub fn character_device(
        &mut self,
        path: &Path,
        major: u32,
        minor: u32,
    ) -> Result<(), LabError> {
        self.leaf(path, CHARACTER, (major, minor), &[])
    }

    /// Adds a file or folder of the host at the same path, with every symbolic link in its path.
    pub fn host_path(&mut self, path: &Path) -> Result<(), LabError> {
        let target = self.host_links(path)?;
        self.host_tree(&target, &target)
    }

    /// Adds a file or folder of the host at a different path.
    pub fn host_path_at(&mut self, host: &Path, path: &Path) -> Result<(), LabError> {
        let host = fs::canonicalize(host).map_err(cannot("find", host))?;
        self.host_tree(&host, path)
    }

    /// Adds the libraries of a host program for this architecture, at the host's paths.
    pub fn libraries(
        &mut self,
        program: &Path,
        arch: &'static str,
        search: &LibrarySearch,
    ) -> Result<(), LabError> {
        let closure = Closure::of(program, arch, search)?.whole(arch)?;
        let mut files = closure.files.into_iter();
        files.try_for_each(|file| self.host_path(&file))
    }

    /// Adds the libraries of all shared objects for this architecture in a file or folder of the host. Missing
    /// libraries are ignored: the program may never open the object.
    pub fn libraries_of_all(
        &mut self,
        path: &Path,
        arch: &'static str,
        search: &LibrarySearch,
    ) -> Result<(), LabError> {
        if path.is_dir() && !path.is_symlink() {
            let list = fs::read_dir(path).map_err(cannot("read", path))?;
            for item in list {
                let item = item.map_err(cannot("read", path))?;
                self.libraries_of_all(&item.path(), arch, search)?;
            }
            return Ok(());
        }
        let closure = match path.is_file() {
            true => Closure::of(path, arch, search).unwrap_or_default(),
            false => Closure::default(),
        };
        let mut files = closure.files.into_iter();
        files.try_for_each(|file| self.host_path(&file))
    }

    /// Ends the archive, padded to a multiple of 512 bytes so that another may follow.
    pub fn finish(self) -> Result<W, LabError> {
        let mut counting = CountingWriter {
            inner: self.output,
            written: 0,
        };
        counting = trailer(counting).map_err(cannot("write", "the archive's end"))?;
        let padding = counting.written.next_multiple_of(512) - counting.written;
        counting
            .write_all(&vec![0; padding])
            .map_err(cannot("write", "the archive's end"))?;
        Ok(counting.inner)
    }

    /// Adds the symbolic links in `path` and returns the path that it leads to.
    fn host_links(&mut self, path: &Path) -> Result<PathBuf, LabError> {
        let mut rest: Vec<_> = path
            .components()
            .rev()
            .map(|part| part.as_os_str().to_owned())
            .collect();
        let mut real = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match part.to_str() {
                Some("/") => real = PathBuf::from("/"),
                Some(".") => {}
                Some("..") => {
                    real.pop();
                }
                _ => {
                    let next = real.join(&part);
                    let metadata = fs::symlink_metadata(&next).map_err(cannot("find", &next))?;
                    if !metadata.is_symlink() {
                        real = next;
                        continue;
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        let path = path.display();
                        return Err(failed!("{path} leads through too many symbolic links"));
                    }
                    let target = fs::read_link(&next).map_err(cannot("read the link", &next))?;
                    self.link(&next, &target)?;
                    rest.extend(
                        target
                            .components()
                            .rev()
                            .map(|part| part.as_os_str().to_owned()),
                    );
                }
            }
        }
        Ok(real)
    }

    fn host_tree(&mut self, host: &Path, path: &Path) -> Result<(), LabError> {
        let metadata = fs::symlink_metadata(host).map_err(cannot("find", host))?;
        if metadata.is_dir() {
            self.folder(path)?;
            let mut items: Vec<_> = fs::read_dir(host)
                .and_then(|list| {
                    list.map(|item| item.map(|item| item.file_name()))
                        .collect::<io::Result<_>>()
                })
                .map_err(cannot("list", host))?;
            items.sort();
            return items
                .iter()
                .try_for_each(|name| self.host_tree(&host.join(name), &path.join(name)));
        }
        if metadata.is_symlink() {
            let target = fs::read_link(host).map_err(cannot("read the link", host))?;
            return self.link(path, &target);
        }
        if metadata.is_file() && !self.seen.contains(relative(path)) {
            if !self.has_room(path, metadata.len()) {
                self.length += entry_length(path, metadata.len());
                self.seen.insert(relative(path).to_path_buf());
                return Ok(());
            }
            let content = fs::read(host).map_err(cannot("read", host))?;
            self.file(path, metadata.permissions().mode(), &content)?;
        }
        // Sockets, pipes and devices have no meaning on another machine.
        Ok(())
    }

    fn has_room(&self, path: &Path, size: u64) -> bool {
        self.length.saturating_add(entry_length(path, size)) <= self.room
    }

    fn leaf(
        &mut self,
        path: &Path,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> Result<(), LabError> {
        let path = relative(path);
        if self.seen.contains(path) {
            return Ok(());
        }
        self.folder(path.parent().unwrap_or(Path::new("")))?;
        self.write(path, mode, device, content)
    }

    fn write(
        &mut self,
        path: &Path,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> Result<(), LabError> {
        let name = path.to_str().ok_or_else(|| not_utf8(path))?;
        let size = content.len() as u64;
        let short = u32::try_from(size).map_err(|_| {
            let path = path.display();
            failed!("{path} has {size} bytes, and a file in the lab must be smaller than 4 GiB")
        })?;
        let fits = self.has_room(path, size);
        self.length += entry_length(path, size);
        if !fits {
            self.seen.insert(path.to_path_buf());
            return Ok(());
        }
        // Each file needs a unique inode number: the kernel treats files with the same number as hard links.
        let inode = u32::try_from(self.seen.len() + 1).unwrap_or(u32::MAX);
        let entry = Builder::new(name)
            .ino(inode)
            .mode(mode)
            .rdev_major(device.0)
            .rdev_minor(device.1);
        let mut writer = entry.write(&mut self.output, short);
        writer
            .write_all(content)
            .and_then(|()| writer.finish().map(drop))
            .map_err(cannot("archive", path))?;
        self.seen.insert(path.to_path_buf());
        Ok(())
    }
}

/// Returns the length of an entry: header and zero-terminated name, then the content, each padded to four bytes.
fn entry_length(path: &Path, size: u64) -> u64 {
    let name = relative(path).as_os_str().len() as u64 + 1;
    (HEADER + name).next_multiple_of(4) + size.next_multiple_of(4)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Counts the bytes of the trailer. The entries before it need not be counted: each ends on a multiple of four bytes,
/// and the kernel requires no other alignment.
struct CountingWriter<W> {
    inner: W,
    written: usize,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.written += length;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Makes the error of a path that is not UTF-8, which archives and the job (JSON) require.
pub(crate) fn not_utf8(path: &Path) -> LabError {
    failed!("{path:?} is not UTF-8, so it cannot go into the lab's file tree")
}

#[cfg(test)]
#[path = "archive_test.rs"]
mod tests;
