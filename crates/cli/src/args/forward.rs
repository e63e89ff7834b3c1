//! The words of a command line that are passed on to another `vmbell`: to both sides of an interleaved comparison, to
//! the command in the lab, and from `bench eoi` to `bench net`.
//!
//! They come from what clap parsed, so new options are passed on without a change here.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// The innermost subcommand with its arguments, and the names that lead to it.
pub(crate) fn innermost(
    mut command: Command,
    mut matches: ArgMatches,
) -> (Vec<OsString>, Command, ArgMatches) {
    let mut path = Vec::new();
    while let Some((name, inner)) = matches.remove_subcommand() {
        let Some(subcommand) = command.find_subcommand(&name) else {
            break;
        };
        path.push(name.into());
        (command, matches) = (subcommand.clone(), inner);
    }
    (path, command, matches)
}

/// The words of all given arguments except the options in `left_out`; positional ones come last.
pub(crate) fn words(command: &Command, matches: &ArgMatches, left_out: &[&str]) -> Vec<OsString> {
    let mut words = options(command, matches, left_out);
    let arguments = command
        .get_positionals()
        .filter(|arg| is_given(matches, arg));
    let positional: Vec<OsString> = arguments.flat_map(|arg| values(matches, arg)).collect();
    if !positional.is_empty() {
        words.push("--".into());
    }
    words.extend(positional);
    words
}

/// The words of all given options except those in `left_out`.
fn options(command: &Command, matches: &ArgMatches, left_out: &[&str]) -> Vec<OsString> {
    let mut words = Vec::new();
    for arg in command.get_arguments().filter(|arg| is_given(matches, arg)) {
        match arg.get_long() {
            Some(name) if left_out.contains(&name) => {}
            Some(name) if matches!(arg.get_action(), ArgAction::SetTrue) => {
                words.push(format!("--{name}").into());
            }
            Some(name) => words.extend(values(matches, arg).map(|value| option(name, &value))),
            None => {}
        }
    }
    words
}

fn values(matches: &ArgMatches, arg: &Arg) -> impl Iterator<Item = OsString> {
    let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    values.map(OsStr::to_owned)
}

/// Whether the argument is on the command line.
pub(crate) fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// `--NAME=VALUE` as one word.
pub(crate) fn option(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

#[cfg(test)]
#[path = "forward_test.rs"]
mod tests;
