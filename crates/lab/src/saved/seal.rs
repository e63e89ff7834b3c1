//! The seal of a file: its size and a fast hash of its content, with which damage is noticed at each use.
//!
//! The hash is the XXH3 (128 bits) of a list with the number and the XXH3 of each 4 KiB page that is not all zeros.
//! Holes and written zeros count as the same. So only the allocated parts of a sparse file are read, and a copy without
//! holes keeps its seal. The hash is a checksum, not a defence against forgery.

use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

const PAGE: usize = 4096;
/// The amount that is read at a time. It stays in the CPU's cache until it is hashed.
const PIECE: usize = 64 * PAGE;

/// A file's size in bytes and the hash of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The size, including holes.
    pub size: u64,
    hash: String,
}

impl Seal {
    /// Seals a file that no process writes to, by reading its allocated parts. Leaves its position at the start.
    pub(super) fn of(mut file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut pages = Vec::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while let Some((start, end)) = extent(file, at, size)? {
            at = start;
            while at < end {
                let length = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
                file.read_exact_at(&mut piece[..length], at)?;
                list(&mut pages, at, &piece[..length]);
                at += length as u64;
            }
        }
        file.rewind()?;
        Ok(Self {
            size,
            hash: format!("{:032x}", XxHash3_128::oneshot(&pages)),
        })
    }
}

/// Returns the next part of the file that has data, extended to whole pages.
fn extent(file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    let data = match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let hole = seek(file, SeekFrom::Hole(data))?;
    let page = PAGE as u64;
    let end = hole.next_multiple_of(page).min(size);
    Ok(Some((data - data % page, end)))
}

/// Adds the number and the hash of each page of a piece to the list. The piece starts at `at`.
fn list(pages: &mut Vec<u8>, at: u64, piece: &[u8]) {
    const ZEROS: [u8; PAGE] = [0; PAGE];
    for (number, page) in (at / PAGE as u64..).zip(piece.chunks(PAGE)) {
        if *page != ZEROS[..page.len()] {
            pages.extend(number.to_le_bytes());
            pages.extend(XxHash3_128::oneshot(page).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a file with these bytes at these offsets, and holes elsewhere.
    fn file(size: u64, parts: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    }

    fn seal(size: u64, parts: &[(u64, &[u8])]) -> Seal {
        Seal::of(&file(size, parts)).unwrap()
    }

    const SIZE: u64 = 5 << 20;
    const MIDDLE: u64 = 3 << 20;

    #[test]
    fn holes_and_zeros_have_one_seal() {
        let sparse = seal(SIZE, &[(MIDDLE, b"machine"), (SIZE - 1, b"!")]);
        let mut full = vec![0; usize::try_from(SIZE).unwrap()];
        full[3 << 20..][..7].copy_from_slice(b"machine");
        *full.last_mut().unwrap() = b'!';
        assert_eq!(sparse, seal(SIZE, &[(0, &full)]));
    }

    #[test]
    fn a_seal_tells_content_place_and_size_apart() {
        let page = [b'a'; PAGE];
        let seals = [
            seal(SIZE, &[]),
            seal(SIZE + 1, &[]),
            seal(SIZE, &[(MIDDLE, b"a")]),
            seal(SIZE, &[(MIDDLE, b"b")]),
            seal(SIZE, &[(MIDDLE + 1, b"a")]),
            seal(SIZE, &[(MIDDLE + PAGE as u64, b"a")]),
            seal(SIZE, &[(0, b"a")]),
            seal(SIZE, &[(SIZE - 1, b"a")]),
            seal(SIZE, &[(0, &page), (MIDDLE, &page)]),
            seal(SIZE, &[(0, &page), (PAGE as u64, &page)]),
        ];
        for (index, one) in seals.iter().enumerate() {
            assert!(!seals[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn a_size_that_is_not_of_whole_pages_is_sealed_to_its_last_byte() {
        let content: Vec<u8> = (0..=250).cycle().take(PIECE + PAGE + 5).collect();
        let whole = seal(content.len() as u64, &[(0, &content)]);
        for at in [0, PAGE - 1, PAGE, PIECE, content.len() - 1] {
            let mut other = content.clone();
            other[at] ^= 1;
            assert_ne!(whole, seal(content.len() as u64, &[(0, &other)]), "{at}");
        }
    }
}
