//! The top of the command line: parses the arguments, runs the subcommand and returns the exit status.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use super::args::suggest::{self, kernel_of_lab};
use super::compare::{self, CompareArgs};
use super::completions::{self, CompletionsArgs};
use super::exit::{Exit, Unavailable, Usage, refused};
use super::gate::{self, GateArgs};
use super::lab::{self, LabArguments};
use super::list::{self, ListArgs};
use super::man::{self, ManArgs};
use super::probe::{self, ProbeArgs};
use super::report::{self, ReportArgs};
use super::run::{self, RunArgs};
use super::suites::{BenchSuite, SuiteArgs};
use super::sweep::{self, SweepArgs};
use super::top::{self, TopArgs};
use super::version;

const EXAMPLES: &str = "\
Examples:
  vmbell bench                  measure the notification paths of this host
  vmbell bench eoi -z           count exits of interrupts, PV EOI off and on
  vmbell bench rings            measure virtqueues
  vmbell bench vmms             measure QEMU and other VMMs with the same guest
  vmbell bench net              measure Linux's network driver in a guest
  vmbell list                   show what can be measured
  vmbell compare a.json b.json  show what changed between two reports
  vmbell report a.json b.json   make an HTML page from reports
  vmbell gate                   check VMMs against their budget of exits
  vmbell sweep                  look for notifications that snapshots lose
  vmbell probe                  show what this host offers
  vmbell probe --devices        show which devices can be assigned to a guest
  vmbell top --once             show exits and notifications of running VMs
  vmbell run vmlinuz            boot a Linux kernel on KVM
  vmbell lab -- ./program       run a program on real KVM, inside QEMU
  vmbell lab -- vmbell bench    measure there, counting instructions
  vmbell man bench | man -l -   read the manual page of a command

Exit status:
  0    success
  1    something failed
  2    the arguments are wrong
  3    inconclusive (vmbell sweep)
  69   this host does not offer what was asked for (vmbell top --source)
  77   everything was skipped
  124  the command's own time limit (--timeout) expired
  130  interrupted by SIGINT (143: by SIGTERM); finished results are written
";

/// Measure and test notifications between a VM guest and its host: ioeventfd, irqfd, PV EOI and virtqueues
#[derive(Debug, Parser)]
#[command(name = "vmbell", version = version::short(), long_version = version::long(), after_help = EXAMPLES, max_term_width = 80)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    Bench(Box<SuiteArgs>),
    List(ListArgs),
    Compare(CompareArgs),
    Gate(GateArgs),
    Sweep(SweepArgs),
    Report(ReportArgs),
    Top(TopArgs),
    Probe(ProbeArgs),
    Run(RunArgs),
    Lab(Box<LabArguments>),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    // Process 1 of the lab's Linux gets the kernel's arguments, not the user's.
    lab::init_if_called();
    // Commands that describe the parser, or that pass arguments on, need the definition of the parser.
    let program = Cli::command();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&kernel_of_lab(suggest::value(error), &program)),
    };
    let outcome = match cli.command {
        CliCommand::Bench(args) => BenchSuite::from(*args).run(&program),
        CliCommand::List(args) => list::run(&args),
        CliCommand::Compare(args) => compare::run(&args),
        CliCommand::Gate(args) => gate::run(&args),
        CliCommand::Sweep(args) => sweep::run(&args),
        CliCommand::Report(args) => report::run(&args),
        CliCommand::Top(args) => top::run(&args),
        CliCommand::Probe(args) => probe::run(&args),
        CliCommand::Run(args) => return run::run(&args),
        CliCommand::Lab(args) => return lab::run(*args, &program),
        CliCommand::Completions(args) => completions::run(&args, program),
        CliCommand::Man(args) => man::run(&args, program),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            if let Some(error) = error.downcast_ref() {
                return refused(error);
            }
            eprintln!("error: {error:#}");
            let exit = match () {
                () if error.is::<Usage>() => Exit::Usage,
                () if error.is::<Unavailable>() => Exit::Unavailable,
                () => Exit::Failed,
            };
            exit.into()
        }
    }
}

#[cfg(test)]
#[path = "cli_test.rs"]
mod tests;
