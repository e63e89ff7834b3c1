//! How every command that measures ends: warnings, then the files, then what is shown.

use std::io::{self, IsTerminal};

use anyhow::Result;

use super::locale;
use super::print_shown;
use super::style::{self, Style};
use crate::args::exports::Exports;
use vmbell_report::{Look, Report};

/// How a report is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) style: Style,
    /// Whether the reasons to doubt its numbers are printed.
    pub(crate) warns: bool,
    /// How the terminal's form looks; colours and the width are those of the stream.
    pub(crate) look: Look,
}

/// Prints warnings on stderr, writes the exports, and shows the report with `more` after it.
///
/// Warnings come first, so that on a terminal the table is the last thing that is printed. Files are written before the
/// terminal can fail, and the terminal shows the report even if a file could not be written; it is stderr if an export uses
/// stdout.
pub(crate) fn deliver(
    report: &Report,
    exports: Exports,
    delivery: Delivery,
    more: impl FnOnce() -> String,
) -> Result<()> {
    let Delivery { style, look, warns } = delivery;
    // The short form of paths has the warnings in a few words.
    let is_short = report.paths().is_some() && !look.verbose;
    if warns && style != Style::None && !is_short {
        warn(report);
    }
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish(report, look.unit);
    let text = |look| vmbell_report::terminal(report, look) + &more();
    show(style, look, stdout_is_taken, text)?;
    exported
}

/// Prints the reasons to doubt the numbers of a report.
fn warn(report: &Report) {
    for warning in vmbell_report::warnings(report) {
        eprintln!("warning: {warning}");
    }
}

/// Shows the text that `write` makes for a stream: stdout, or stderr if stdout is taken by an export.
pub(crate) fn show(
    style: Style,
    look: Look,
    stdout_is_taken: bool,
    write: impl FnOnce(Look) -> String,
) -> Result<()> {
    let (color, is_terminal) = match stdout_is_taken {
        true => (style.color(&io::stderr()), false),
        false => (style.color(&io::stdout()), io::stdout().is_terminal()),
    };
    let look = Look {
        color,
        bars: look.bars && is_terminal && locale::is_utf8(),
        width: style::width(stdout_is_taken),
        ..look
    };
    match (style, stdout_is_taken) {
        (Style::None, _) => {}
        (_, true) => eprint!("{}", write(look)),
        (_, false) => print_shown(&write(look))?,
    }
    Ok(())
}
