//! How every measuring command ends: it prints warnings, writes the files, then shows the report.

use std::io::{self, IsTerminal};

use anyhow::Result;

use super::locale;
use super::print_shown;
use super::style::{self, Style};
use crate::args::exports::Exports;
use vmbell_report::{Block, Look, Report, Screen, blocks, terminal, widest};

/// How a report is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) style: Style,
    /// Whether to print the reasons to doubt the numbers.
    pub(crate) warns: bool,
    /// What is shown.
    pub(crate) look: Look,
}

/// Prints warnings on stderr, writes the exports, and shows the report with `more` after it.
///
/// Warnings come first, so that on a terminal the table is printed last. Files are written before a closed terminal can
/// cause an error, and the report is shown even if a file could not be written. It goes to stderr if an export uses
/// stdout.
pub(crate) fn deliver(
    report: &Report,
    exports: Exports,
    delivery: Delivery,
    more: Vec<Block>,
) -> Result<()> {
    let Delivery { style, look, warns } = delivery;
    // The short form of paths shows the warnings in a few words.
    let is_short = report.paths().is_some() && !look.verbose;
    if warns && style != Style::None && !is_short {
        warn(report);
    }
    let stdout_is_taken = exports.use_stdout();
    let exported = exports.finish(report, look.unit);
    let look = Look {
        bars: look.bars && !stdout_is_taken && io::stdout().is_terminal() && locale::is_utf8(),
        ..look
    };
    let mut all = blocks(report, look);
    all.extend(more);
    let screen = screen(style, stdout_is_taken);
    let width = screen.width.into_iter().chain(widest(report, look)).min();
    let text = terminal(&all, Screen { width, ..screen });
    put(style, stdout_is_taken, &text)?;
    exported
}

/// Prints the reasons to doubt the numbers of a report.
fn warn(report: &Report) {
    for warning in vmbell_report::warnings(report) {
        eprintln!("warning: {warning}");
    }
}

/// Shows blocks on stdout, or on stderr if stdout is taken by an export.
pub(crate) fn show(style: Style, stdout_is_taken: bool, blocks: &[Block]) -> Result<()> {
    let screen = screen(style, stdout_is_taken);
    put(style, stdout_is_taken, &terminal(blocks, screen))
}

/// Shows blocks after earlier output, with an empty line between them.
pub(crate) fn show_below(style: Style, stdout_is_taken: bool, blocks: &[Block]) -> Result<()> {
    let screen = screen(style, stdout_is_taken);
    let text = format!("\n{}", terminal(blocks, screen));
    put(style, stdout_is_taken, &text)
}

/// The width and colours of the stream.
fn screen(style: Style, is_stderr: bool) -> Screen {
    Screen {
        color: match is_stderr {
            true => style.color(&io::stderr()),
            false => style.color(&io::stdout()),
        },
        width: style::width(is_stderr),
    }
}

fn put(style: Style, is_stderr: bool, text: &str) -> Result<()> {
    match (style, is_stderr) {
        (Style::None, _) => {}
        (_, true) => eprint!("{text}"),
        (_, false) => print_shown(text)?,
    }
    Ok(())
}
