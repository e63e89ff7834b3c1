//! The command line: a file or a folder for each subcommand, by its name; those of `bench` are in `suites`. It is the only place
//! that names a backend.
//!
//! `cli` parses the arguments and calls the subcommand. `args` has the options that several of them share, and `output` what
//! they print. `process` runs other programs, `confine` is the sandbox.
//! Results go to stdout and everything else to stderr, so that `vmbell bench --export-json - | jq`
//! needs no further flag. `exit` has the exit statuses.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

// Its macros are for all others.
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
mod top;
mod version;

pub use cli::main;
