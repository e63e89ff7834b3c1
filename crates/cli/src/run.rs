//! Parses the arguments, runs the subcommand and returns the exit status.

use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Command};
use super::exit::{Exit, Unavailable, Usage};
use super::suites::Suite;
use super::{compare, completions, gate, lab, list, man, probe, report, run_image, top};

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    // If this is process 1 of the lab's Linux, the arguments are the kernel's and not the user's.
    lab::init_if_called();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let outcome = match cli.command {
        Command::Bench(args) => Suite::from(*args).run(),
        Command::List(args) => list::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Run(args) => return run_image::run(&args),
        Command::Lab(args) => return lab::run(*args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
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

/// Prints what is wrong with the arguments, of this command or of one that it stands for; or the help, which ends here, too.
pub(super) fn refused(error: &clap::Error) -> ExitCode {
    // If stdout is closed, no reader is left.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
