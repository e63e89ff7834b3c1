//! `cargo vmbell-check`: runs cargo with the code under test compiled for the checker.
//!
//! The program plays two parts. Started by cargo as a subcommand, it checks the toolchain and the workspace, then
//! starts `cargo test` with itself as `RUSTC_WRAPPER`. Started as that wrapper, once for each call of the compiler, it
//! adds the instrumentation options for the crates under test, and executes rustc.

mod args;
mod compiler;
mod config;
mod error;
mod folder;
mod help;
mod hooks;
mod passthrough;
mod session;
mod toolchain;
mod weaken;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Request;
use error::Error;

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // cargo starts `cargo vmbell-check test` as `cargo-vmbell-check vmbell-check test`.
    let subcommand = args.first().is_some_and(|arg| arg == "vmbell-check");
    if subcommand {
        args.remove(0);
    } else if let Some(plan) = compiler::Plan::from_env() {
        return report(plan.compile(&args));
    }
    report(run(args))
}

fn run(args: Vec<OsString>) -> Result<ExitCode, Error> {
    match args::parse(args)? {
        Request::Help => {
            print!("{}", help::TEXT);
            Ok(ExitCode::SUCCESS)
        }
        Request::Version => {
            println!("cargo-vmbell-check {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Request::Clean(invocation) => session::clean(&invocation),
        Request::Cargo(invocation) => session::run(&invocation),
    }
}

fn report(result: Result<ExitCode, Error>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(error.status())
    })
}
