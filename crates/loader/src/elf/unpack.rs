//! Unpacks the archive of a run into the root file system.

use super::sys::{self, die};
use super::text::Path;
use crate::newc::{Entries, Entry};

/// The bits of a mode that are the type of a file.
const TYPE: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// The bytes that one call writes.
const PIECE: usize = 64 << 10;

/// Makes all files of an archive. What exists already stays, except that files get their new content.
pub fn unpack(archive: &[u8]) {
    for entry in Entries::new(archive) {
        match entry {
            Ok(entry) => make(&entry),
            Err(_) => die("the archive is malformed"),
        }
    }
}

fn make(entry: &Entry<'_>) {
    let mut path = Path::of(&["/"]);
    path.push(entry.name);
    let permissions = entry.mode & 0o7777;
    // A folder or a link may already exist, from the initramfs.
    match entry.mode & TYPE {
        FOLDER => drop(sys::make_folder(&path, permissions)),
        LINK => {
            let mut target = Path::of(&[]);
            target.push(entry.data);
            let _ = sys::make_link(&target, &path);
        }
        REGULAR => {
            let Some(fd) = sys::open(&path, sys::WRITE) else {
                die("cannot make a file of the archive");
            };
            // Writes in pieces: for each page that it copies, the kernel checks all following pages of the same call.
            if !entry
                .data
                .chunks(PIECE)
                .all(|piece| sys::write_all(fd, piece))
            {
                die("out of memory: its files do not fit (--memory)");
            }
            sys::set_permissions(fd, permissions);
            sys::close(fd);
        }
        _ => drop(sys::make_device(&path, entry.mode, entry.device)),
    }
}
