//! `--style`: colours and progress, with the same names as in hyperfine.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::ValueEnum;

/// What is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Use colours and progress on a terminal, unless NO_COLOR forbids colours
    Auto,
    /// Use neither colours nor progress
    Basic,
    /// Use colours always, and progress on a terminal
    Full,
    /// Use progress, and no colours
    Nocolor,
    /// Use colours, and no progress
    Color,
    /// Print no report; only write the exports
    None,
}

impl Style {
    /// Whether text for `stream` is coloured.
    pub(crate) fn color(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Full | Self::Color => true,
            Self::Auto => stream.is_terminal() && allowed_by_environment(),
            Self::Basic | Self::Nocolor | Self::None => false,
        }
    }

    /// Whether progress is shown.
    pub(crate) const fn progress(self) -> bool {
        matches!(self, Self::Auto | Self::Full | Self::Nocolor)
    }
}

/// The number of characters that fit on a line of stdout or stderr: the terminal's width, or `COLUMNS` if it is not a
/// terminal; `None` without a limit.
pub(crate) fn width(is_stderr: bool) -> Option<usize> {
    let size = if is_stderr {
        terminal_size::terminal_size_of(io::stderr())
    } else {
        terminal_size::terminal_size_of(io::stdout())
    };
    let terminal = size.map(|(terminal_size::Width(width), _)| usize::from(width));
    let told = || env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(told).filter(|width| *width > 0)
}

/// Whether the environment allows colours.
fn allowed_by_environment() -> bool {
    allows(env::var_os("NO_COLOR"), env::var_os("TERM"))
}

/// Colours are forbidden by a non-empty NO_COLOR (<https://no-color.org>) or `TERM=dumb`.
fn allows(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|value| value != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_a_dumb_terminal_forbid_colours() {
        let allowed = |no_color: Option<&str>, term: Option<&str>| {
            allows(no_color.map(OsString::from), term.map(OsString::from))
        };
        assert!(allowed(None, None) && allowed(Some(""), Some("xterm")));
        assert!(!allowed(Some("1"), Some("xterm")) && !allowed(Some("0"), None));
        assert!(!allowed(None, Some("dumb")));
    }
}
