//! A package as the signed index describes it.

use std::path::Path;

use crate::cache::hash_file;
use crate::error::{LabError, cannot, failed};

/// One file to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// File name in apt's archive folder.
    pub file: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

impl Package {
    /// Reads the lines of `apt-get install --print-uris`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, LabError> {
        text.lines()
            .filter(|line| line.starts_with('\''))
            .map(Self::parse)
            .collect()
    }

    fn parse(line: &str) -> Result<Self, LabError> {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [_address, file, size, hash] = fields[..]
            && let Ok(size) = size.parse()
            && let Some(sha256) = hash.strip_prefix("SHA256:")
            && sha256.len() == 64
            && !file.contains('/')
        {
            return Ok(Self {
                file: file.to_owned(),
                size,
                sha256: sha256.to_ascii_lowercase(),
            });
        }
        Err(bad_answer(line))
    }

    /// Checks the size and digest of the file in `folder`. Returns what is wrong, or `None` if the file is right.
    pub fn fault(&self, folder: &Path) -> Result<Option<String>, LabError> {
        let path = folder.join(&self.file);
        let size = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Some("it is missing".to_owned()));
            }
            Err(error) => return Err(cannot("inspect", path)(error)),
        };
        if size != self.size {
            return Ok(Some(format!("{size} bytes instead of {}", self.size)));
        }
        let digest = hash_file(&path).map_err(cannot("read", path))?;
        Ok((digest != self.sha256).then(|| format!("SHA-256 {digest} instead of {}", self.sha256)))
    }
}

/// Makes the error of a line of apt's output that does not describe a package.
pub(super) fn bad_answer(line: &str) -> LabError {
    failed!(
        "apt-get printed {line:?} where a package's address, file, size and SHA-256 were expected"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::hash_bytes;

    fn package(content: &[u8]) -> Package {
        Package {
            file: "a_1_all.deb".into(),
            size: content.len() as u64,
            sha256: hash_bytes(content),
        }
    }

    #[test]
    fn apts_list_is_read_and_its_chatter_skipped() {
        let sha256 = hash_bytes(b"");
        let text = format!(
            "Reading package lists...\n'http://mirror/pool/a_1%3a2_all.deb' a_1%3a2_all.deb 42 SHA256:{sha256}\n"
        );
        let list = Package::parse_list(&text).unwrap();
        assert_eq!(
            list,
            [Package {
                file: "a_1%3a2_all.deb".into(),
                size: 42,
                sha256
            }]
        );
    }

    #[test]
    fn a_line_without_a_sha256_is_refused() {
        for line in [
            "'u' f 42 MD5Sum:00",
            "'u' f 42 ",
            "'u' f",
            "'u' f many SHA256:00",
            "'u' ../f 42 SHA256:00",
        ] {
            let error = Package::parse_list(line).unwrap_err();
            assert!(
                error.to_string().contains("SHA-256 were expected"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_truncated_file_and_a_changed_one_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a_1_all.deb");
        let package = package(b"whole");
        assert_eq!(
            package.fault(folder.path()).unwrap().unwrap(),
            "it is missing"
        );
        std::fs::write(&path, b"who").unwrap();
        assert_eq!(
            package.fault(folder.path()).unwrap().unwrap(),
            "3 bytes instead of 5"
        );
        std::fs::write(&path, b"while").unwrap();
        assert!(
            package
                .fault(folder.path())
                .unwrap()
                .unwrap()
                .starts_with("SHA-256 ")
        );
        std::fs::write(&path, b"whole").unwrap();
        assert_eq!(package.fault(folder.path()).unwrap(), None);
    }
}
