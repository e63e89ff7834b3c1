//! A package as the signed index describes it.

use std::path::Path;

use super::AptError;
use crate::cache::hash_file;

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
    pub fn parse_list(text: &str) -> Result<Vec<Self>, AptError> {
        text.lines()
            .filter(|line| line.starts_with('\''))
            .map(Self::parse)
            .collect()
    }

    fn parse(line: &str) -> Result<Self, AptError> {
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
        Err(AptError::Answer {
            line: line.to_owned(),
        })
    }

    /// Compares the file in `folder` with size and digest; returns what is wrong with it, or `None` if it is right.
    pub fn fault(&self, folder: &Path) -> Result<Option<String>, AptError> {
        let path = folder.join(&self.file);
        let size = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Some("it is missing".to_owned()));
            }
            Err(error) => return Err(AptError::io("inspect", path)(error)),
        };
        if size != self.size {
            return Ok(Some(format!("{size} bytes instead of {}", self.size)));
        }
        let digest = hash_file(&path).map_err(AptError::io("read", path))?;
        Ok((digest != self.sha256).then(|| format!("SHA-256 {digest} instead of {}", self.sha256)))
    }
}

#[cfg(test)]
#[path = "package_test.rs"]
mod tests;
