//! `vmbell completions SHELL`: prints a completion script.

use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::args::Cli;
use super::exit::Exit;
use super::output::print;
use vmbell_bench::catalogue;
use vmbell_bench::scenario::{self, Scan};
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support, Vm, VmConfig};
use vmbell_report::Group;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Print the script for this shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script, which is made from the definitions that parse the arguments.
pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = with_names(Cli::command());
    clap_complete::generate(args.shell, &mut command, "vmbell", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Good)
}

/// A backend that has every capability and runs no guest: its rows are those of all backends, on every host.
#[derive(Debug)]
struct AllBackends;

impl Hypervisor for AllBackends {
    fn name(&self) -> &'static str {
        "all"
    }

    fn support(&self, _: Capability) -> Support {
        Support::Yes
    }

    fn create_vm(&self, _: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Err(Error::Unsupported {
            backend: self.name(),
            capability: Capability::Run,
            reason: "it only names rows".to_owned(),
        })
    }
}

/// The command with the names of the rows where it takes names. The parser itself takes globs too, so only
/// the script knows them.
fn with_names(command: Command) -> Command {
    let backend: Arc<dyn Hypervisor> = Arc::new(AllBackends);
    let scenarios = vec![scenario::entries(&backend, &Scan::default())];
    let mut names: Vec<String> = catalogue::all(scenarios)
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
