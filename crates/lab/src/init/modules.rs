//! Loads modules in the order of their file names.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::system::finit_module;

/// Loads every module in `folder`; returns a message for each that failed.
pub fn load_all(folder: &str) -> Vec<String> {
    let Ok(list) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = list.flatten().map(|item| item.path()).collect();
    paths.sort();
    let mut notes = Vec::new();
    for path in paths {
        let loaded = File::open(&path).and_then(|file| Ok(finit_module(file, c"", 0)?));
        match loaded {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                notes.push(format!("cannot load {}: {error}", path.display()));
            }
            _ => {}
        }
    }
    notes
}
