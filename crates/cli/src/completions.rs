//! `vmbell completions SHELL`: prints a completion script.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;

use super::backends::all_scenarios;
use super::exit::Exit;
use super::output::print;
use vmbell_bench::catalogue;
use vmbell_bench::scenario::ScanValues;
use vmbell_report::Group;

/// Print a completion script for bash, fish, zsh or another shell
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Print the script for this shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script. It is generated from `program`, the definitions that parse the arguments.
pub(super) fn run(args: &CompletionsArgs, program: Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = with_names(program);
    clap_complete::generate(args.shell, &mut command, "vmbell", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Good)
}

/// Returns the command with the names of rows as possible values. Only the script lists them: the parser itself also
/// accepts globs.
fn with_names(command: Command) -> Command {
    let mut names: Vec<String> = catalogue::all(vec![all_scenarios(&ScanValues::default())])
        .iter()
        .filter(|entry| entry.group() != Group::Debug)
        .map(|entry| entry.name().to_owned())
        .collect();
    names.dedup();
    let names = |command: Command| {
        command.mut_arg("names", |names_of| {
            names_of.value_parser(PossibleValuesParser::new(names.clone()))
        })
    };
    command.mut_subcommand("bench", |bench| names(bench).mut_subcommand("paths", names))
}
