//! SHA-256 of files and of recipes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// A SHA-256 in lower-case hexadecimal, as package indexes and manifests write it.
pub type Digest = String;

/// The digest of bytes at hand.
pub fn hash_bytes(bytes: &[u8]) -> Digest {
    hex(&Sha256::digest(bytes))
}

/// The digest of a file, read in pieces.
pub fn hash_file(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&piece[..length]);
    }
}

fn hex(bytes: &[u8]) -> Digest {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_bytes(b"abc"), abc);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        assert_eq!(hash_file(file.path()).unwrap(), abc);
    }
}
