//! Sends the folder for results (`/out`) to the host as a tar archive.

use std::io::{self, Write};
use std::path::Path;

/// Writes the archive of `folder` to `port` and returns its length in bytes.
pub fn send(folder: &Path, port: impl Write) -> io::Result<u64> {
    let mut archive = tar::Builder::new(Counting {
        inner: port,
        written: 0,
    });
    archive.follow_symlinks(false);
    if folder.is_dir() {
        archive.append_dir_all(".", folder)?;
    }
    Ok(archive.into_inner()?.written)
}

struct Counting<W> {
    inner: W,
    written: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.written += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "content").unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("link")).unwrap();
        let mut sent = Vec::new();
        let count = send(folder.path(), &mut sent).unwrap();
        assert_eq!(count, sent.len() as u64);
        let mut archive = tar::Archive::new(sent.as_slice());
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().into_owned())
            .collect();
        assert!(
            names.contains(&"a".into()) && names.contains(&"link".into()),
            "{names:?}"
        );
    }
}
