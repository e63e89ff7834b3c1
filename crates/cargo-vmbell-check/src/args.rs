//! The command line: the arguments for this program, and those for cargo.
//!
//! All arguments except `--atomics-only`, `--target`, `--target-dir`, `--weaken` and the options of `--weaken` go to cargo
//! unchanged. Those that choose packages or cargo's configuration are also recorded, because they decide what is checked.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::Error;
use crate::hooks::Hooks;
use crate::weaken;

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Request {
    Help,
    Version,
    Clean(Invocation),
    Cargo(Invocation),
}

/// One run of cargo.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// `test`, `build` or `run`.
    pub(crate) command: &'static str,
    pub(crate) hooks: Hooks,
    pub(crate) target: Option<String>,
    pub(crate) target_dir: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) weaken: weaken::Options,
    /// The names after `-p`.
    pub(crate) packages: Vec<String>,
    pub(crate) whole_workspace: bool,
    /// The arguments in `cargo_args` that `cargo metadata` also needs.
    pub(crate) metadata_args: Vec<OsString>,
    /// The `--config` arguments.
    pub(crate) config_args: Vec<OsString>,
    pub(crate) cargo_args: Vec<OsString>,
}

/// Options that choose what `cargo test` builds. Without any of them it also runs doc tests.
const SELECTIONS: [&str; 9] = [
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--bench",
    "--benches",
];

/// Parses the arguments after `cargo vmbell-check`.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Request, Error> {
    let mut args = args.into_iter();
    let first = args.next().unwrap_or_default();
    let command = match first.to_str() {
        Some("test" | "t") => "test",
        Some("build" | "b") => "build",
        Some("run" | "r") => "run",
        Some("clean") => "clean",
        Some("-h" | "--help" | "help") => return Ok(Request::Help),
        Some("-V" | "--version") => return Ok(Request::Version),
        Some("") => return Err(Error::NoCommand),
        _ => return Err(Error::UnknownCommand(first.to_string_lossy().into_owned())),
    };
    let mut invocation = Invocation::new(command);
    if invocation.read(args)? {
        return Ok(Request::Help);
    }
    match (invocation.weaken.weaken, invocation.weaken.dependent()) {
        (true, _) if command != "test" => return Err(Error::OnlyTests),
        (false, Some(option)) => return Err(Error::NeedsWeaken(option)),
        (true, _) => invocation.weaken.check()?,
        _ => {}
    }
    Ok(if command == "clean" {
        Request::Clean(invocation)
    } else {
        Request::Cargo(invocation)
    })
}

impl Invocation {
    fn new(command: &'static str) -> Self {
        Self {
            command,
            hooks: Hooks::All,
            target: None,
            target_dir: None,
            quiet: false,
            weaken: weaken::Options::default(),
            packages: Vec::new(),
            whole_workspace: false,
            metadata_args: Vec::new(),
            config_args: Vec::new(),
            cargo_args: Vec::new(),
        }
    }

    /// Sorts cargo's arguments. Returns whether help was asked for.
    fn read(&mut self, mut args: impl Iterator<Item = OsString>) -> Result<bool, Error> {
        let mut selected = false;
        while let Some(arg) = args.next() {
            // Arguments that are not UTF-8 are paths or names: cargo checks them.
            let (name, mut inline) = split(&arg);
            match name {
                "--" => {
                    self.select(selected);
                    self.cargo_args.push(arg);
                    self.cargo_args.extend(args);
                    return Ok(false);
                }
                "-h" | "--help" => return Ok(true),
                "--atomics-only" => self.hooks = Hooks::Atomics,
                "--weaken" => self.weaken.weaken = true,
                "--fail-unneeded" => self.weaken.fail_unneeded = true,
                "--site" => {
                    let site = value(name, inline, &mut args)?;
                    let site = site.to_string_lossy().into_owned();
                    weaken::check_site(&site)?;
                    self.weaken.site = Some(site);
                }
                "--bound" => {
                    let bound = value(name, inline, &mut args)?;
                    let bound = bound.to_string_lossy().into_owned();
                    let number = bound.parse().ok().filter(|&number| number > 0);
                    self.weaken.bound = Some(number.ok_or(Error::Bound(bound))?);
                }
                "--export-json" => {
                    self.weaken.export_json = Some(value(name, inline, &mut args)?.into());
                }
                "--export-markdown" => {
                    self.weaken.export_markdown = Some(value(name, inline, &mut args)?.into());
                }
                "--export-html" => {
                    self.weaken.export_html = Some(value(name, inline, &mut args)?.into());
                }
                "--doc" => return Err(Error::DocTests),
                "--target" => {
                    let target = value(name, inline, &mut args)?;
                    self.target = Some(target.to_string_lossy().into_owned());
                }
                "--target-dir" => self.target_dir = Some(value(name, inline, &mut args)?.into()),
                "-p" | "--package" => {
                    let package = value(name, inline.take(), &mut args)?;
                    self.packages.push(package.to_string_lossy().into_owned());
                    self.cargo_args.extend(["--package".into(), package]);
                }
                "--manifest-path" | "--config" | "-Z" => {
                    let pair = [name.into(), value(name, inline.take(), &mut args)?];
                    self.cargo_args.extend(pair.clone());
                    if name == "--config" {
                        self.config_args.extend(pair.clone());
                    }
                    self.metadata_args.extend(pair);
                }
                "--offline" | "--locked" | "--frozen" => {
                    self.metadata_args.push(arg.clone());
                    self.cargo_args.push(arg);
                }
                _ => {
                    self.quiet |= matches!(name, "-q" | "--quiet");
                    self.whole_workspace |= matches!(name, "--workspace" | "--all");
                    selected |= SELECTIONS.contains(&name) || name == "--all-targets";
                    self.cargo_args.push(arg);
                }
            }
        }
        self.select(selected);
        Ok(false)
    }

    /// Leaves out doc tests: rustdoc compiles them itself, without the wrapper, so that they would not link.
    fn select(&mut self, selected: bool) {
        if self.command == "test" && !selected {
            self.cargo_args.push("--tests".into());
        }
    }
}

/// The name of an option, and the value in the same argument: `--name=value`, `-pname`, `-Zname`.
fn split(arg: &OsStr) -> (&str, Option<&str>) {
    let text = arg.to_str().unwrap_or_default();
    match text.get(..2) {
        Some("--") => match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        },
        Some(name @ ("-p" | "-Z")) if text.len() > 2 => {
            (name, Some(text[2..].trim_start_matches('=')))
        }
        _ => (text, None),
    }
}

fn value(
    name: &str,
    inline: Option<&str>,
    args: &mut impl Iterator<Item = OsString>,
) -> Result<OsString, Error> {
    inline
        .map(OsString::from)
        .or_else(|| args.next())
        .ok_or_else(|| Error::NoValue(name.to_owned()))
}

#[cfg(test)]
#[path = "args_test.rs"]
mod tests;
