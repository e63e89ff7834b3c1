//! The command line. Each subcommand has a file or folder of its name; those of `bench` are in `suites`. No other crate
//! names a backend.
//!
//! `cli` parses the arguments and calls the subcommand. `args` has the options that several subcommands share, `output`
//! prints. `process` runs other programs, `confine` is the sandbox, `exit` has the exit statuses. Results go to stdout
//! and everything else to stderr, so `vmbell bench --export-json - | jq` needs no further flag.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

// The other modules use its macros.
#[macro_use]
mod output;

mod advice;
mod args;
mod backends;
mod cli;
mod compare;
mod completions;
mod confine;
mod exit;
mod gate;
mod interrupt;
mod lab;
mod list;
mod man;
mod probe;
mod process;
mod report;
mod run;
mod suites;
mod sweep;
mod top;
mod version;

pub use cli::main;
