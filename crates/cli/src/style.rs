//! `--style`: colours and progress; the words mean what they mean for hyperfine.

use std::io::{self, IsTerminal};

use clap::ValueEnum;

/// What is shown, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// Colours and progress where there is a terminal; honours NO_COLOR
    Auto,
    /// Neither colours nor progress
    Basic,
    /// Colours, terminal or not, and progress where there is a terminal
    Full,
    /// Progress, no colours
    Nocolor,
    /// Colours, no progress
    Color,
    /// Nothing but exports, and no warnings
    None,
    /// `name cycles`, one a line, as kvm-unit-tests' vmexit prints
    Vmexit,
}

impl Style {
    /// Whether text for `stream` is coloured.
    pub(super) fn color(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Full | Self::Color => true,
            Self::Auto => stream.is_terminal() && allowed_by_environment(),
            Self::Basic | Self::Nocolor | Self::None | Self::Vmexit => false,
        }
    }

    /// Whether progress is shown.
    pub(super) const fn progress(self) -> bool {
        matches!(self, Self::Auto | Self::Full | Self::Nocolor)
    }
}

/// The number of characters that fit into a line of stdout, or of stderr: what the terminal says, or
/// `COLUMNS` where there is none; `None` without a limit.
pub(super) fn width(is_stderr: bool) -> Option<usize> {
    let size = if is_stderr {
        terminal_size::terminal_size_of(io::stderr())
    } else {
        terminal_size::terminal_size_of(io::stdout())
    };
    let terminal = size.map(|(terminal_size::Width(width), _)| usize::from(width));
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(told).filter(|width| *width > 0)
}

/// Whether the environment allows colours: any value of NO_COLOR but an empty one forbids them
/// (<https://no-color.org>), and so does `TERM=dumb`.
fn allowed_by_environment() -> bool {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !forbidden && !dumb
}
