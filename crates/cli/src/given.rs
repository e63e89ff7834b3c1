//! The words of a command line that are passed on to another `vmbell`: to the two sides of an interleaved comparison, and
//! to the command in the lab.
//!
//! They are taken from what clap parsed, so that a new option is passed on without a line here.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// The words of all arguments that were given, but for the options in `left_out`; positional ones come last.
pub(super) fn words(command: &Command, matches: &ArgMatches, left_out: &[&str]) -> Vec<OsString> {
    let given = |arg: &&Arg| is_given(matches, arg);
    let mut options = Vec::new();
    let mut positional = Vec::new();
    for arg in command.get_arguments().filter(given) {
        let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        match arg.get_long() {
            None => positional.extend(values.map(OsStr::to_owned)),
            Some(name) if left_out.contains(&name) => {}
            Some(name) if matches!(arg.get_action(), ArgAction::SetTrue) => {
                options.push(format!("--{name}").into());
            }
            Some(name) => options.extend(values.map(|value| option(name, value))),
        }
    }
    if !positional.is_empty() {
        options.push("--".into());
    }
    options.extend(positional);
    options
}

/// Whether the argument is on the command line.
pub(super) fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// `--NAME=VALUE` as one word.
pub(super) fn option(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("--{name}="));
    word.push(value);
    word
}

#[cfg(test)]
#[path = "given_test.rs"]
mod tests;
