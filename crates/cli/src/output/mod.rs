//! Prints results to stdout and messages to stderr. Their readers may close them at any time (`| head`, `2>&1 | head`),
//! which is not an error: the command goes on and keeps its exit status. The standard library's macros would panic.

/// Prints a message to stderr.
macro_rules! eprint {
    ($($text:tt)*) => {{
        let text = format!($($text)*);
        let text = $crate::output::locale::shown(&text);
        // If stderr is closed, no one reads the message.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }};
}

/// Prints a line to stderr.
macro_rules! eprintln {
    ($($text:tt)*) => { eprint!("{}\n", format_args!($($text)*)) };
}

// These modules use the macros, so they must follow them.
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

/// Prints text for people, with characters that their locale can show.
pub(super) fn print_shown(text: &str) -> Result<()> {
    print(&shown(text))
}

/// Prints a line.
pub(super) fn print_line(line: impl Display) -> Result<()> {
    print(&format!("{line}\n"))
}

/// Prints bytes that may not be text.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<()> {
    print_to_reader(bytes).map(drop)
}

/// Prints one of several parts, and returns whether stdout is still open.
pub(super) fn print_to_reader(bytes: &[u8]) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}
