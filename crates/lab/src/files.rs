//! The files that a program left in L1: a tar archive in an unnamed file, which disappears with this process however
//! that ends. The thread that runs a boot uses it.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::error::{LabError, cannot};

/// The files of `/out`.
#[derive(Debug)]
pub struct OutFiles(File);

impl OutFiles {
    /// Makes an empty archive in the folder for temporary files.
    pub(crate) fn new() -> io::Result<Self> {
        tempfile::tempfile().map(Self)
    }

    /// Returns the file to write the archive to.
    pub(crate) fn sink(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Writes the files into `folder`, which is made if it does not exist.
    pub fn unpack(mut self, folder: &Path) -> Result<(), LabError> {
        let unpacked = self
            .0
            .rewind()
            .and_then(|()| fs::create_dir_all(folder))
            .and_then(|()| tar::Archive::new(self.0).unpack(folder));
        unpacked.map_err(cannot("unpack the files from L1 into", folder))
    }

    /// Returns the text of one file; `None` if the program did not leave this file.
    pub fn text(&mut self, name: &str) -> io::Result<Option<String>> {
        self.0.rewind()?;
        for entry in tar::Archive::new(&self.0).entries()? {
            let mut entry = entry?;
            if entry.path()?.file_name().is_some_and(|own| own == name) {
                let mut text = String::new();
                entry.read_to_string(&mut text)?;
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

/// Makes the error of a file in the folder for temporary files.
pub(crate) fn temporary(source: io::Error) -> LabError {
    cannot("write a temporary file in", std::env::temp_dir())(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_name_and_a_missing_one_is_none() {
        let mut files = OutFiles::new().unwrap();
        let mut archive = tar::Builder::new(files.sink().unwrap());
        for (name, text) in [("./a.json", "A"), ("./b.json", "B")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            archive
                .append_data(&mut header, name, text.as_bytes())
                .unwrap();
        }
        archive.finish().unwrap();
        assert_eq!(files.text("b.json").unwrap().as_deref(), Some("B"));
        assert_eq!(files.text("a.json").unwrap().as_deref(), Some("A"));
        assert_eq!(files.text("c.json").unwrap(), None);
    }
}
