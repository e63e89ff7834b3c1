//! Reads a newc archive in memory (Linux `Documentation/driver-api/early-userspace/buffer-format.rst`), without a heap.
//! It supports what the lab's writer makes: folders, files, links and devices, each file once.

/// The bytes of an entry's header: a magic number and 13 numbers of eight hexadecimal digits.
const HEADER: usize = 6 + 13 * 8;
const MAGIC: &[u8] = b"070701";
/// The name of the entry that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// The bytes are not an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// One entry of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The path, without its final zero byte.
    pub name: &'a [u8],
    /// The type and the permissions (`st_mode`).
    pub mode: u32,
    /// The major and minor number of a device.
    pub device: (u32, u32),
    /// The content of a file, or the target of a link.
    pub data: &'a [u8],
}

/// The entries of one archive, up to its trailer.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Entries<'a> {
    /// The entries of the archive at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: Some(bytes) }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.take()?;
        let Some((entry, rest)) = entry(bytes) else {
            return Some(Err(Malformed));
        };
        if entry.name == TRAILER {
            return None;
        }
        self.rest = Some(rest);
        Some(Ok(entry))
    }
}

/// Returns the first entry, and the bytes after it.
fn entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let header = bytes.get(..HEADER)?;
    if !header.starts_with(MAGIC) {
        return None;
    }
    let field = |index: usize| number(header.get(6 + 8 * index..14 + 8 * index)?);
    let (size, name_size) = (field(6)? as usize, field(11)? as usize);
    let name = bytes.get(HEADER..HEADER + name_size)?;
    let at = (HEADER + name_size).next_multiple_of(4);
    let end = at.checked_add(size)?;
    let entry = Entry {
        name: name.strip_suffix(&[0])?,
        mode: field(1)?,
        device: (field(9)?, field(10)?),
        data: bytes.get(at..end)?,
    };
    let rest = bytes.get(end.next_multiple_of(4)..).unwrap_or_default();
    Some((entry, rest))
}

/// Parses a number in hexadecimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some((value << 4) | digit)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    use super::*;

    fn length(length: usize) -> u32 {
        length.try_into().unwrap()
    }

    fn archive(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, mode, data) in entries.iter().chain([&("TRAILER!!!", 0, &[][..])]) {
            let numbers = [0, *mode, 0, 0, 1, 0, length(data.len()), 0, 0, 5, 1];
            bytes.extend(b"070701");
            let last = [length(name.len() + 1), 0];
            bytes.extend(
                numbers
                    .iter()
                    .chain(&last)
                    .flat_map(|n| format!("{n:08x}").into_bytes()),
            );
            for part in [&[name.as_bytes(), &[0]].concat()[..], data] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
        bytes
    }

    #[test]
    fn entries_have_names_modes_devices_and_contents() {
        let bytes = archive(&[("lab", 0o040_755, b""), ("lab/a", 0o100_644, b"12345")]);
        let entries: Vec<_> = Entries::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].name, entries[0].mode), (&b"lab"[..], 0o040_755));
        assert_eq!(
            (entries[1].name, entries[1].data),
            (&b"lab/a"[..], &b"12345"[..])
        );
        assert_eq!(entries[1].device, (5, 1));
    }

    #[test]
    fn an_archive_without_a_trailer_is_malformed_after_its_entries() {
        let mut bytes = archive(&[("a", 0o100_644, b"1")]);
        bytes.truncate(HEADER + 2 + 4);
        let mut entries = Entries::new(&bytes);
        assert!(entries.next().unwrap().is_ok());
        assert_eq!(entries.next(), Some(Err(Malformed)));
        assert_eq!(entries.next(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_end_and_never_panic(bytes: Vec<u8>, at in 0..400_usize, by: u8) {
            assert!(Entries::new(&bytes).count() <= bytes.len() / HEADER + 1);
            let mut bytes = archive(&[("a", 0o100_644, &[7; 99]), ("b", 0o120_777, b"a")]);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = by;
            }
            assert!(Entries::new(&bytes).count() <= bytes.len() / HEADER + 1);
        }
    }
}
