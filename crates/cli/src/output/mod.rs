//! Printing results to stdout, and messages to stderr, whose readers may go at any time (`| head`, `2>&1 | head`).
//!
//! That is not an error of a command: it ends with the status that it has anyway. The macros of std panic instead.

/// Prints a message to stderr.
macro_rules! eprint {
    ($($text:tt)*) => {{
        let text = format!($($text)*);
        let text = $crate::output::locale::shown(&text);
        // Without a reader, nothing is left to do with a message.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }};
}

/// Prints a line to stderr.
macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

// They use the macros, so they come after them.
pub(crate) mod deliver;
pub(crate) mod locale;
pub(crate) mod progress;
pub(crate) mod style;
pub(crate) mod text;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

use self::locale::shown;

/// Prints `text`.
pub(super) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// Prints text for people, as their locale can show it.
pub(super) fn print_shown(text: &str) -> Result<()> {
    print(&shown(text))
}

/// Prints a line.
pub(super) fn print_line(line: impl Display) -> Result<()> {
    print(&format!("{line}\n"))
}

/// Prints what may be no text.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
    print_to_reader(bytes).map(drop)
}

/// Prints one of many parts, and returns whether somebody may read the next one.
pub(super) fn print_to_reader(bytes: &[u8]) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}
