//! `NAME[,PROPERTY=VALUE]...`, QEMU's syntax for a device, parsed by types with clap's traits: a name is a subcommand,
//! a property is an option. The help is generated from the same types. Two commas are one comma in a value.

use clap::builder::{StyledStr, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Subcommand, ValueEnum};

use super::super::commas;
use vmbell_bench::did_you_mean;

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnOff {
    On,
    Off,
}

impl OnOff {
    pub(super) const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// Parses a device.
pub(super) fn parse<T: Subcommand>(text: &str) -> Result<T, String> {
    let devices = devices::<T>();
    let mut parts = commas::split(text).into_iter();
    let name = &*parts.next().unwrap_or_default();
    let Some(device) = devices.find_subcommand(name) else {
        let names: Vec<&str> = devices.get_subcommands().map(Command::get_name).collect();
        let (hint, all) = (did_you_mean(name, &names), names.join(", "));
        return Err(format!("unknown device '{name}'{hint} (there are: {all})"));
    };
    let mut words = vec!["device".to_owned(), name.to_owned()];
    for part in parts {
        // A property without a value means `on`.
        let (property, value) = part.split_once('=').unwrap_or((&part, "on"));
        check(device, property, &part)?;
        words.push(format!("--{property}={value}"));
    }
    let device = device.clone();
    let matches = devices.try_get_matches_from(words);
    let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
    parsed.map_err(|error| message(&device, &error))
}

/// The help text: each device with its properties and what it is.
pub(super) fn help<T: Subcommand>() -> String {
    let devices = devices::<T>();
    let mut text = "Plug in a device\n".to_owned();
    let mut shared: Vec<Arg> = Vec::new();
    for device in devices.get_subcommands() {
        let (own, of_several): (Vec<&Arg>, Vec<&Arg>) = device
            .get_arguments()
            .partition(|arg| arg.get_help_heading().is_none());
        for arg in of_several {
            if shared.iter().all(|other| other.get_id() != arg.get_id()) {
                shared.push(arg.clone());
            }
        }
        let properties = properties(&own);
        let about = plain(device.get_long_about().or(device.get_about()));
        text += &format!("\n{}{properties}\n    {about}\n", device.get_name());
        text += &own.iter().copied().map(line).collect::<String>();
    }
    for heading in shared.iter().filter_map(Arg::get_help_heading).take(1) {
        text += &format!("\n{heading}:\n");
        text += &shared.iter().map(line).collect::<String>();
    }
    text
}

fn devices<T: Subcommand>() -> Command {
    T::augment_subcommands(Command::new("device"))
        .disable_help_subcommand(true)
        .mut_subcommands(|device| device.disable_help_flag(true).args_override_self(true))
}

fn check(device: &Command, property: &str, part: &str) -> Result<(), String> {
    let name = device.get_name();
    let known: Vec<&str> = device.get_arguments().filter_map(Arg::get_long).collect();
    if known.is_empty() {
        return Err(format!("{name} has no properties, so no '{part}'"));
    }
    if known.contains(&property) {
        return Ok(());
    }
    let (hint, all) = (did_you_mean(property, &known), known.join(", "));
    Err(format!(
        "{name} has no property '{property}'{hint} (there are: {all})"
    ))
}

/// Rephrases clap's error about a device in terms of this syntax.
fn message(device: &Command, error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        _ => String::new(),
    };
    let given = text(ContextKind::InvalidArg);
    let is_it = |arg: &&Arg| {
        let name = arg.get_long().unwrap_or_default();
        given.split(['=', ' ']).next() == Some(&format!("--{name}"))
    };
    let Some(arg) = device.get_arguments().find(is_it) else {
        return error.to_string();
    };
    let (name, property) = (device.get_name(), arg.get_long().unwrap_or_default());
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            format!(
                "{name} needs {property}={}: {}",
                value(arg),
                plain(arg.get_help())
            )
        }
        ErrorKind::InvalidValue => format!("{property}: expected {}", alternatives(arg)),
        _ => {
            let source = std::error::Error::source(error);
            let source = source.map(ToString::to_string).unwrap_or_default();
            format!("{property}: {source}")
        }
    }
}

/// The properties after the device's name: the required ones, and whether there are others.
fn properties(own: &[&Arg]) -> String {
    let (needed, others): (Vec<&Arg>, Vec<&Arg>) =
        own.iter().copied().partition(|arg| arg.is_required_set());
    let needed = needed.into_iter().map(|arg| format!(",{}", property(arg)));
    let others = (!others.is_empty()).then(|| "[,PROPERTY=VALUE]...".to_owned());
    needed.chain(others).collect()
}

/// `file=FILE` or `mmap=on|off`.
fn property(arg: &Arg) -> String {
    format!("{}={}", arg.get_long().unwrap_or_default(), value(arg))
}

fn line(arg: &Arg) -> String {
    format!("    {}: {}\n", property(arg), plain(arg.get_help()))
}

/// The value of a property: its possible values, or the name of the value.
fn value(arg: &Arg) -> String {
    let possible = possible(arg);
    match possible.is_empty() {
        true => arg
            .get_value_names()
            .map(|names| names.join(" "))
            .unwrap_or_default(),
        false => possible.join("|"),
    }
}

fn alternatives(arg: &Arg) -> String {
    let quoted = |name: &String| format!("'{name}'");
    possible(arg)
        .iter()
        .map(quoted)
        .collect::<Vec<_>>()
        .join(" or ")
}

fn possible(arg: &Arg) -> Vec<String> {
    let parser: &ValueParser = arg.get_value_parser();
    let values = parser.possible_values().into_iter().flatten();
    values.map(|value| value.get_name().to_owned()).collect()
}

fn plain(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
