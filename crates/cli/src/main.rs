//! The `vmbell` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    vmbell_cli::main()
}
