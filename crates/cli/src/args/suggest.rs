//! Suggests `vmbell lab kernel` for an option that only that has.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// The error, which tells of an option or a command that `vmbell lab` does not have that `vmbell lab kernel` has it. `program`
/// parses the arguments.
pub(crate) fn kernel_of_lab(mut error: clap::Error, program: &Command) -> clap::Error {
    let lab = program.find_subcommand("lab");
    let Some(kernel) = lab.and_then(|lab| lab.find_subcommand("kernel")) else {
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
    let mut options = kernel.get_arguments().filter_map(|arg| arg.get_long());
    let option = word.strip_prefix("--");
    let has = kernel.find_subcommand(word).is_some()
        || option.is_some_and(|name| options.any(|option| option == name));
    if is_of_lab && has {
        let tip = format!("'vmbell lab kernel' has '{word}'");
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}
