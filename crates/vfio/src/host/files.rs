//! Where the host's files are, and how they are read.
//!
//! A file that cannot be read, or is longer than any that the kernel writes, is `None`: sysfs is read as hostile input,
//! because a root folder may be anything. Any thread may read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::bus::Bus;

/// The host: the folder below which its `/sys`, `/dev`, `/proc` and `/lib/modules` are. Nothing is cached: each call
/// reads the files again.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    pub(super) may_open: MayOpen,
    pub(super) user: u32,
}

impl Host {
    /// This host.
    pub fn system() -> Self {
        Self::at("/")
    }

    /// A host whose files are below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            may_open,
            user: rustix::process::geteuid().as_raw(),
        }
    }

    pub(super) fn sys(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("sys").join(path)
    }

    pub(super) fn dev(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("dev").join(path)
    }

    pub(super) fn proc(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join("proc").join(path)
    }

    /// The folder of a bus in sysfs.
    pub(super) fn bus(&self, bus: Bus) -> PathBuf {
        self.sys("bus").join(bus.name())
    }

    /// The folder of a release's modules.
    pub(super) fn lib_modules(&self, release: &str) -> PathBuf {
        self.root.join("lib/modules").join(release)
    }
}

/// Whether this process may open a file for reading and writing.
pub(super) type MayOpen = fn(&Path) -> io::Result<()>;

fn may_open(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(
        path,
        Access::READ_OK | Access::WRITE_OK,
    )?)
}

/// The maximum number of bytes of a file in sysfs. A device-tree file may be longer than a page.
const LONGEST: u64 = 64 << 10;

pub(super) fn bytes(path: &Path) -> Option<Vec<u8>> {
    bytes_up_to(path, LONGEST)
}

fn bytes_up_to(path: &Path, longest: u64) -> Option<Vec<u8>> {
    // A FIFO would make the open wait; sysfs has none.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    let read = file.take(longest + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= longest).then_some(bytes)
}

/// Reads the text of a file of up to 64 MiB, such as an index of modules.
pub(super) fn long_text(path: &Path) -> Option<String> {
    let bytes = bytes_up_to(path, 64 << 20)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the text of a file without the white space around it; `None` if nothing is left.
pub(super) fn text(path: &Path) -> Option<String> {
    let bytes = bytes(path)?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Reads the texts of a device-tree property, each of which ends with a zero byte.
pub(super) fn texts(path: &Path) -> Vec<String> {
    let bytes = bytes(path).unwrap_or_default();
    let texts = bytes.split(|byte| *byte == 0);
    texts
        .filter(|text| !text.is_empty())
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// Reads a hexadecimal number with or without `0x`.
pub(super) fn hex(path: &Path) -> Option<u32> {
    let text = text(path)?;
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
}

/// Reads the big-endian 32-bit number in a device-tree property.
pub(super) fn cell(path: &Path) -> Option<u32> {
    Some(u32::from_be_bytes(bytes(path)?.try_into().ok()?))
}

/// Reads the last part of a symbolic link's target.
pub(super) fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// Lists the names in a folder, sorted; empty if there is no such folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
