//! Suggests what a user may have meant: a value similar to the typed one, a kernel of Debian, or `vmbell lab kernel` for
//! an option or subcommand that `vmbell lab` does not have.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use vmbell_bench::similar;

/// Adds the most similar possible value to an error without one: clap does not find swapped letters in short words.
pub(crate) fn value(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(typed)), Some(ContextValue::Strings(valid)), None) = (
        error.get(ContextKind::InvalidValue),
        error.get(ContextKind::ValidValue),
        error.get(ContextKind::SuggestedValue),
    ) else {
        return error;
    };
    let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
    if let Some(similar) = similar(typed, &valid) {
        let similar = ContextValue::String(similar.to_owned());
        error.insert(ContextKind::SuggestedValue, similar);
    }
    error
}

/// The name of Debian's kernel that a mistyped one may mean: `debian:6.1` for `debin:6.1`, `debian-6.1` and `6.1`.
pub(crate) fn debian_kernel(typed: &str) -> Option<String> {
    let digit = typed.find(|character: char| character.is_ascii_digit())?;
    let (prefix, version) = typed.split_at(digit);
    let is_version = |text: &str| {
        let mut characters = text.chars();
        characters.all(|character| character.is_ascii_digit() || character == '.')
    };
    let name = prefix.trim_end_matches([':', '-', '=']);
    let is_meant = name.is_empty() || similar(name, &["debian"]).is_some();
    (is_meant && is_version(version)).then(|| format!("debian:{version}"))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_kernel_of_debian_is_recognized_and_a_file_is_not() {
        for typed in [
            "debin:6.12",
            "debian-6.12",
            "Debian:6.12",
            "debian6.12",
            "6.12",
        ] {
            assert_eq!(
                debian_kernel(typed).as_deref(),
                Some("debian:6.12"),
                "{typed}"
            );
        }
        for typed in ["vmlinuz-6.12", "bzImage", "6.12/vmlinux", "debian", ""] {
            assert_eq!(debian_kernel(typed), None, "{typed}");
        }
    }
}
