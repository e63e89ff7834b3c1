//! Printing results to stdout.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints `text`. If the reader has closed the pipe (`| head`), that is no error.
pub(super) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// The same for what may be no text.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}
