//! `vmbell man [COMMAND...]`: prints a manual page, or writes all of them.
//!
//! clap_mangen makes the sections about the arguments. This file turns the text after the options into sections: each
//! heading begins one, and a line indented by two spaces begins an item.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit::{Exit, Usage};
use super::output::print;

/// Print a manual page, to be read with `man -l -`
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Print the page of this subcommand, such as `lab prepare` [default: the whole program]
    command: Vec<String>,
    /// Write the pages of all subcommands to this folder, for a package
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Headings in the text after the options, and the section of each, in the order of man-pages(7).
pub(super) const SECTIONS: [(&str, &str); 3] = [
    ("Exit status:", "EXIT STATUS"),
    ("Environment variables:", "ENVIRONMENT"),
    ("Examples:", "EXAMPLES"),
];

/// Prints the page. It is generated from `program`, the definitions that parse the arguments.
pub(super) fn run(args: &ManArgs, program: Command) -> Result<Exit> {
    let mut command = without_help(program);
    // `build` fills in the names of subcommands and the flags that they inherit.
    command.build();
    if let Some(folder) = &args.all {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        write_all(&command, folder)
            .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
        return Ok(Exit::Good);
    }
    for name in &args.command {
        command = command.find_subcommand(name).cloned().ok_or_else(|| {
            Usage::new(format!("no subcommand '{name}' in {}", command.get_name()))
        })?;
    }
    let page = page(&command).context("cannot write the manual page")?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Good)
}

/// Returns the command without the subcommands `help`, which have no pages.
fn without_help(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_subcommands(without_help)
}

/// Writes the pages of the command and of all its subcommands, each to a file such as vmbell-bench.1.
fn write_all(command: &Command, folder: &Path) -> io::Result<()> {
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        write_all(inner, folder)?;
    }
    std::fs::write(
        folder.join(format!("{}.1", page_name(command))),
        page(command)?,
    )
}

/// `vmbell-lab-prepare`.
fn page_name(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.replace(' ', "-")
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let name = page_name(command);
    let heading = command.get_subcommand_help_heading().unwrap_or("Commands");
    let heading = heading.to_uppercase();
    let value = command.get_subcommand_value_name().unwrap_or("COMMAND");
    let value = value.to_owned();
    let man = Man::new(
        command
            .clone()
            .subcommand_help_heading(heading)
            .subcommand_value_name(value),
    )
    .title(name.to_uppercase())
    .date(option_env!("VMBELL_DATE").unwrap_or_default())
    .source(concat!("vmbell ", env!("CARGO_PKG_VERSION")))
    .manual("vmbell manual");

    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help().map(ToString::to_string);
    let mut rest = Roff::new();
    for (heading, title) in SECTIONS {
        let mut lines = after.iter().flat_map(|text| text.lines());
        if lines.any(|line| line == heading) {
            rest.control("SH", [title]);
            let items = lines.take_while(|line| !line.is_empty());
            add_items(&mut rest, &items.collect::<Vec<_>>());
        }
    }
    if let Some((parent, _)) = name.rsplit_once('-') {
        rest.control("SH", ["SEE ALSO"]);
        rest.text([bold(parent), roman("(1)")]);
    }
    rest.to_writer(&mut page)?;
    Ok(page)
}

/// Adds items such as `  COMMAND  description`. The description may also be on the next lines, indented further. A
/// backslash at the end of a line continues a command.
fn add_items(roff: &mut Roff, lines: &[&str]) {
    let mut goes_on = false;
    for line in lines {
        let text = line.trim_start();
        let begins = line.len() - text.len() == 2;
        let (item, description) = match begins || goes_on {
            true => text.split_once("  ").unwrap_or((text, "")),
            false => ("", text),
        };
        if begins {
            roff.control("TP", []);
        }
        if !item.is_empty() {
            roff.text([bold(item)]);
        }
        if goes_on {
            roff.control("br", []);
        }
        if !description.is_empty() {
            roff.text([roman(description.trim_start())]);
        }
        goes_on = item.ends_with('\\');
    }
}
