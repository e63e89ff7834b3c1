//! The host's files below a root, so that tests can supply their own. Text from these files is printed on a terminal,
//! so it is cut and cleaned here.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use vmbell_report::visible;

/// The maximum number of bytes of a file that are read.
const MOST: u64 = 64 << 10;
/// The maximum number of characters of a value that are shown.
const SHOWN: usize = 160;

/// The root of a host's files.
#[derive(Clone, Debug)]
pub(crate) struct HostFiles(PathBuf);

impl HostFiles {
    /// The files below `root`, which is `/` on a real host.
    pub(crate) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name.trim_start_matches('/'))
    }

    /// The text of a file; `None` if there is no such file.
    pub(crate) fn text(&self, name: &str) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let read =
            File::open(self.path(name)).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            // ENODEV and the like: the file is for something that this host does not have.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first line of a file, cleaned for printing; `None` if the file does not exist or is empty.
    pub(crate) fn line(&self, name: &str) -> io::Result<Option<String>> {
        let text = self.text(name)?;
        Ok(text.and_then(|text| {
            let line = text.lines().next()?.trim();
            let line: String = visible(line).chars().take(SHOWN).collect();
            (!line.is_empty()).then_some(line)
        }))
    }

    /// Whether a device can be opened for reading and writing.
    pub(crate) fn opens(&self, name: &str) -> io::Result<()> {
        File::options()
            .read(true)
            .write(true)
            .open(self.path(name))
            .map(drop)
    }

    /// The names in a folder, sorted; empty if the folder does not exist or cannot be read.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}
