//! What cargo alone cannot do for this repository: `cargo xtask --help`.
//!
//! `lab` runs the tests that need `/dev/kvm` on a machine without KVM. The others test what cargo's tests cannot:
//! `deploy/`, the Debian package and the page in a browser. `starts` measures the lab itself.

mod api;
mod artifacts;
mod cache;
mod child;
mod debian;
mod fleet;
mod lab;
mod outputs;
mod package;
mod page;
mod release;
mod starts;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// What cargo alone cannot do for this repository
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
enum XtaskCommand {
    /// Write the public API of the libraries to docs/api, one item per line
    ///
    /// Needs the Rust of Cargo.toml's `rust-version`.
    Api {
        /// Write the files to another folder
        #[arg(default_value = "docs/api")]
        folder: PathBuf,
    },
    Lab(lab::LabArgs),
    Outputs(outputs::OutputsArgs),
    /// Test the Prometheus and Grafana files in deploy/ with the real programs
    ///
    /// Downloads them once, into ~/.cache/vmbell/ci: about 23 MB.
    Fleet,
    /// Make a Debian package of the command, and install, run and remove it in a clean root
    ///
    /// The package is left in target/package. The root is downloaded once, into ~/.cache/vmbell/ci: about 40 MB. Needs root.
    Package {
        /// Also make it from another folder, and compare the bytes
        #[arg(long)]
        twice: bool,
        /// Only build the program that it has, and print its path; root is not needed
        #[arg(long, conflicts_with = "twice")]
        program: bool,
    },
    Starts(starts::StartsArgs),
    /// Test the page of `vmbell report` in Chromium
    ///
    /// Looks at rows, errors, requests, contrast, labels, phone and paper. Screenshots are left in target/page. Needs npm,
    /// and Chromium or root to install it.
    Page,
    Words(words::WordsArgs),
}

fn main() -> ExitCode {
    let result = match XtaskCommand::parse() {
        XtaskCommand::Api { folder } => api::run(&folder),
        XtaskCommand::Lab(options) => lab::run(&options),
        XtaskCommand::Outputs(options) => outputs::run(&options),
        XtaskCommand::Fleet => fleet::run(),
        XtaskCommand::Package { program: true, .. } => package::run_program(),
        XtaskCommand::Package { twice: true, .. } => package::run_twice(),
        XtaskCommand::Package { .. } => package::run(),
        XtaskCommand::Starts(options) => starts::run(&options),
        XtaskCommand::Page => page::run(),
        XtaskCommand::Words(options) => words::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
