//! Suggests `vmbell lab kernel` for an option or subcommand that `vmbell lab` does not have.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

/// Adds a tip to the error if `vmbell lab` lacks an option or subcommand that `vmbell lab kernel` has. `program` parses
/// the arguments.
pub(crate) fn kernel_of_lab(mut error: clap::Error, program: &Command) -> clap::Error {
    let Some(lab) = program.find_subcommand("lab") else {
        return error;
    };
    let Some(kernel) = lab.find_subcommand("kernel") else {
        return error;
    };
    let (Some(ContextValue::String(word)), Some(ContextValue::StyledStr(usage))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::Usage),
    ) else {
        return error;
    };
    let usage = usage.to_string();
    let is_of_lab = usage.contains("vmbell lab ") && !usage.contains("vmbell lab kernel");
    // If `vmbell lab` has the option, the error is about its value or its position.
    if is_of_lab && has(kernel, word) && !has(lab, word) {
        let tip = format!("'vmbell lab kernel' has '{word}'");
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// Whether the command has this option or command.
fn has(command: &Command, word: &str) -> bool {
    let mut options = command.get_arguments().filter_map(Arg::get_long);
    let option = word.strip_prefix("--");
    command.find_subcommand(word).is_some()
        || option.is_some_and(|name| options.any(|option| option == name))
}
