//! `vmbell man [COMMAND...]`: prints a manual page, or writes all of them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

use super::exit::{Exit, Usage};
use super::output::print;

/// Print a manual page, e.g. `vmbell man bench | man -l -`
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Print the page of this subcommand, e.g. `lab prepare` [default: the whole program]
    command: Vec<String>,
    /// Write the pages of all subcommands to this folder, for a package
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Prints the page, which is made from `program`, the definitions that parse the arguments.
pub(super) fn run(args: &ManArgs, program: Command) -> Result<Exit> {
    if let Some(folder) = &args.all {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        clap_mangen::generate_to(program.disable_help_subcommand(true), folder)
            .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
        return Ok(Exit::Good);
    }
    let mut command = program;
    // This fills in the names of subcommands and the flags that they inherit.
    command.build();
    let mut page_name = "vmbell".to_owned();
    for name in &args.command {
        let inner = command.find_subcommand(name).cloned();
        page_name = format!("{page_name}-{name}");
        command = inner
            .map(|inner| inner.display_name(page_name.clone()))
            .ok_or_else(|| {
                Usage::new(format!("no subcommand '{name}' in {}", command.get_name()))
            })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .source(concat!("vmbell ", env!("CARGO_PKG_VERSION")))
        .manual("vmbell")
        .render(&mut page)
        .context("cannot write the manual page")?;
    print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Good)
}
