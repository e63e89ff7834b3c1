//! What a guest prints, for a test that reads it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use vmbell_devices::Output;

/// Output to a file.
#[derive(Debug)]
pub struct Paper {
    file: File,
    /// Where the guest prints.
    pub output: Output,
}

impl Default for Paper {
    fn default() -> Self {
        let file = tempfile::tempfile().unwrap();
        let output = Output::new(file.try_clone().unwrap().into()).unwrap();
        Self { file, output }
    }
}

impl Paper {
    /// Returns all that has been printed.
    pub fn text(&self) -> String {
        assert_eq!(self.output.drain(|| true), 0);
        let mut bytes = vec![0; self.file.metadata().unwrap().len().try_into().unwrap()];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}
