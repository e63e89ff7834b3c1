//! Digests of files that are hashed at each start of the lab, remembered until a file changes.
//!
//! A file is unchanged if its device, inode, size, mtime and ctime are the same. Because of the granularity of times,
//! the digest of a file that changed less than 2 s before it was read is not remembered.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::cache::{Digest, hash_open};
use crate::error::{LabError, cannot};

/// The coarsest granularity of times in a file system.
const GRANULARITY: Duration = Duration::from_secs(2);
/// A list that is longer than this is replaced by a new one.
const LIMIT: u64 = 64 << 10;

/// The properties that show whether a file has changed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// One line of the list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownDigest {
    #[serde(rename = "file")]
    identity: FileIdentity,
    sha256: Digest,
}

impl FileIdentity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns whether a change from now on would be visible in the times.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let settled = now.unwrap_or_default().saturating_sub(GRANULARITY);
        let settled = i64::try_from(settled.as_secs()).unwrap_or(i64::MAX);
        self.modified.0 < settled && self.changed.0 < settled
    }
}

/// Returns the SHA-256 of the file at `path`, from the list if the list has it.
pub(super) fn digest(list: &Path, path: &Path) -> Result<Digest, LabError> {
    let file = File::open(path).map_err(cannot("open", path))?;
    let identity = || {
        let metadata = file.metadata().map_err(cannot("inspect", path))?;
        Ok(FileIdentity::of(&metadata))
    };
    let before = identity()?;
    if let Some(known) = find(list, &before) {
        return Ok(known);
    }
    let settled = before.is_settled();
    let sha256 = hash_open(&file).map_err(cannot("read", path))?;
    if settled && identity()? == before {
        let known = KnownDigest {
            identity: before,
            sha256: sha256.clone(),
        };
        // A digest that cannot be remembered is calculated again next time.
        let _ = remember(list, &known);
    }
    Ok(sha256)
}

fn find(list: &Path, identity: &FileIdentity) -> Option<Digest> {
    let text = fs::read_to_string(list).ok()?;
    // A line that was cut off when a process was killed does not parse.
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let known: Option<KnownDigest> = lines
        .rev()
        .find(|known: &KnownDigest| known.identity == *identity);
    known.map(|known| known.sha256)
}

fn remember(list: &Path, known: &KnownDigest) -> io::Result<()> {
    let mut list = File::options().create(true).append(true).open(list)?;
    if list.metadata()?.len() > LIMIT {
        list.set_len(0)?;
    }
    // The line is written in one call. It begins with a newline, in case another process has left half a line.
    list.write_all(format!("\n{}\n", serde_json::to_string(known)?).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::path::PathBuf;
    use std::thread;

    use super::*;
    use crate::cache::hash_bytes;

    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (list, file) = (folder.path().join("digests"), folder.path().join("kernel"));
        (folder, list, file)
    }

    fn write(path: &Path, content: &str, modified: SystemTime) {
        fs::write(path, content).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified))
            .unwrap();
    }

    /// Waits until the file's last change is so long ago that its digest may be remembered.
    fn settle(path: &Path) {
        while !FileIdentity::of(&fs::metadata(path).unwrap()).is_settled() {
            thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn a_file_that_did_not_change_is_not_read_again() {
        let (_folder, list, file) = folder();
        fs::write(&file, "one").unwrap();
        settle(&file);
        assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"one"));
        // With a wrong digest in the list, the answer shows that it comes from the list.
        let text = fs::read_to_string(&list).unwrap();
        let other = hash_bytes(b"other");
        fs::write(&list, text.replace(&hash_bytes(b"one"), &other)).unwrap();
        assert_eq!(digest(&list, &file).unwrap(), other);
    }

    #[test]
    fn a_change_shows_whatever_the_time_of_modification_says() {
        let (_folder, list, file) = folder();
        let old = SystemTime::now() - Duration::from_secs(1000);
        write(&file, "one", old);
        settle(&file);
        digest(&list, &file).unwrap();
        write(&file, "two", old);
        assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"two"));
        write(&file, "six", old + Duration::from_secs(1));
        assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"six"));
        let other = file.with_extension("new");
        write(&other, "ten", old);
        fs::rename(other, &file).unwrap();
        assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"ten"));
    }

    #[test]
    fn nothing_is_remembered_of_a_file_that_just_changed() {
        let (_folder, list, file) = folder();
        let later = SystemTime::now() + Duration::from_secs(1000);
        for modified in [SystemTime::now(), SystemTime::UNIX_EPOCH, later] {
            write(&file, "one", modified);
            assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"one"));
            assert!(!list.exists());
        }
    }

    #[test]
    fn a_damaged_list_is_ignored_and_extended() {
        let (_folder, list, file) = folder();
        fs::write(&file, "one").unwrap();
        settle(&file);
        digest(&list, &file).unwrap();
        let line = fs::read_to_string(&list).unwrap();
        for left in [&line[..0], &line[..line.len() / 2], "\0\0", "{}\n[]"] {
            fs::write(&list, left).unwrap();
            for _ in 0..2 {
                assert_eq!(digest(&list, &file).unwrap(), hash_bytes(b"one"));
            }
            assert_eq!(fs::read_to_string(&list).unwrap(), format!("{left}{line}"));
        }
    }

    #[test]
    fn the_list_has_a_largest_size() {
        let (_folder, list, file) = folder();
        fs::write(&file, "one").unwrap();
        settle(&file);
        File::create(&list).unwrap().set_len(LIMIT + 1).unwrap();
        digest(&list, &file).unwrap();
        let length = fs::metadata(&list).unwrap().len();
        assert!(length < 1000, "{length}");
    }
}
