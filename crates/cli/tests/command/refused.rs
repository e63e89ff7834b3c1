//! What is refused before anything is measured, as it is shown: each command with its status and its words is in a block of
//! `refused/*.md`. `TRYCMD=overwrite` writes the words anew.

use std::fs;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/refused");

#[test]
fn wrong_arguments_are_refused_with_what_to_write() {
    let cases = trycmd::TestCases::new();
    // Nothing is there to boot with, to download with, and to keep it in.
    cases
        .env("PATH", "/nonexistent")
        .env("XDG_CACHE_HOME", "/dev/null");
    cases.register_bin("vmbell", Path::new(env!("CARGO_BIN_EXE_vmbell")));
    // A pattern that no file matches would pass.
    for file in fs::read_dir(FOLDER).unwrap() {
        cases.case(file.unwrap().path());
    }
}
