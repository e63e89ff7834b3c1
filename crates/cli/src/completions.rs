//! `vmbell completions SHELL`: prints a completion script.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::args::Cli;
use super::exit::Exit;
use super::output::print;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script, which is made from the definitions that parse the arguments.
pub(super) fn run(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "vmbell", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Good)
}
