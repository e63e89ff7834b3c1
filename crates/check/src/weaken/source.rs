//! Places in the source of the code under test, named by their lines.
//!
//! Copies of one function that the compiler inlined in several places, or made for several types, are one place.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::panic::Location;
use std::path::{Path, PathBuf};

use crate::code::{Frame, Origin, frames};
use crate::search::CallSite;

/// A place in the code under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, from its package's folder on. Empty if the code has no debug information.
    pub file: String,
    /// The file's whole path, where the code was compiled.
    pub path: PathBuf,
    /// The line; 0 if the code has no line, for example because the compiler merged it with other code.
    pub line: u32,
    /// The function, and the functions of the same package into which it is inlined.
    pub function: String,
    /// Whose code the place is in.
    pub owner: Owner,
}

/// Whose code a place is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The code under test.
    Tested,
    /// The file that sets the scenario up.
    Scenario,
    /// The standard library, such as `Arc::drop`. Such code is not changed.
    Standard(String),
}

/// Each function with its line, or with the offset in the function if it has no debug information.
type Chain = Vec<(String, u32, usize)>;

/// What tells a place from others: the file, the line, the functions, the owner and the path.
pub(super) type Key = ((String, u32, Chain), Owner, PathBuf);

/// Finds the places of calls.
pub(super) struct Sources<'a> {
    scenario: &'a Location<'a>,
    package: Option<OsString>,
    /// The only line.
    only: Option<&'a (String, u32)>,
}

impl Sources<'_> {
    /// `scenario` is the place of the call that explores.
    pub(super) fn new<'a>(
        scenario: &'a Location<'a>,
        only: Option<&'a (String, u32)>,
    ) -> Sources<'a> {
        Sources {
            scenario,
            package: env::var_os("CARGO_MANIFEST_DIR"),
            only,
        }
    }

    /// Whether a call is at the only line, if there is one.
    pub(super) fn is_chosen(&self, call: CallSite) -> bool {
        let Some(only) = self.only else { return true };
        let frames = frames(call.own);
        let mut own = frames.iter().filter(|frame| frame.origin == Origin::Own);
        own.any(|frame| is_at(frame, only))
    }

    /// The caller's file is a relative path such as `src/lib.rs`, and a dependency's path can end in the same way.
    fn is_scenario(&self, file: &Path) -> bool {
        let own = self.package.as_ref();
        file.ends_with(self.scenario.file()) && own.is_none_or(|own| file.starts_with(own))
    }

    pub(super) fn key(&self, call: CallSite) -> Key {
        let inside = frames(call.caller);
        let own = frames(call.own);
        let own: Vec<&Frame> = own
            .iter()
            .filter(|frame| frame.origin == Origin::Own)
            .collect();
        let has_line = |frame: &&&Frame| frame.line.as_ref().is_some_and(|(_, line)| *line > 0);
        let place = own.iter().find(has_line).or(own.first());
        let place = place.and_then(|frame| frame.line.clone());
        let package_of = |frame: &Frame| frame.line.as_ref().map(|(file, _)| package(file));
        let package = place.as_ref().map(|(file, _)| package(file));
        let is_in_package = |frame: &&&Frame| package_of(frame) == package;
        let chain = own
            .iter()
            .take_while(is_in_package)
            .map(|frame| match &frame.line {
                Some((_, line)) => (frame.function().to_string(), *line, 0),
                None => (frame.function().to_string(), 0, frame.offset),
            })
            .collect();
        let standard = inside
            .iter()
            .take_while(|frame| frame.origin != Origin::Own)
            .find(|frame| frame.origin == Origin::Standard);
        let owner = match (standard, &place) {
            (Some(frame), _) => Owner::Standard(standard_name(frame)),
            (None, Some((file, _))) if self.is_scenario(file) => Owner::Scenario,
            _ => Owner::Tested,
        };
        let file = place.as_ref().map(|(file, _)| {
            let folder = package.flatten().or(file.parent().map(Path::to_path_buf));
            let parent = folder.as_deref().and_then(Path::parent);
            let short = parent.and_then(|parent| file.strip_prefix(parent).ok());
            short.unwrap_or(file).display().to_string()
        });
        let (path, line) = place.unwrap_or_default();
        ((file.unwrap_or_default(), line, chain), owner, path)
    }
}

fn is_at(frame: &Frame, (file, line): &(String, u32)) -> bool {
    matches!(&frame.line, Some((path, at)) if at == line && path.ends_with(file))
}

/// Names a function and the functions that it is inlined into, each of these with its line.
fn name(chain: &[(String, u32, usize)]) -> String {
    let mut text = String::new();
    for (at, (function, line, offset)) in chain.iter().enumerate() {
        text += if at > 0 { " in " } else { "" };
        text += if function.is_empty() {
            "unknown code"
        } else {
            function
        };
        if at > 0 {
            text += &format!(":{line}");
        } else if *offset > 0 {
            text += &format!("+{offset:#x}");
        }
    }
    text
}

/// The folder of a file's package. Files in C have no package, and count together as one package.
fn package(file: &Path) -> Option<PathBuf> {
    let mut folders = file.ancestors().skip(1);
    let found = folders.find(|folder| folder.join("Cargo.toml").is_file());
    found.map(Path::to_path_buf)
}

/// Names a function of the standard library.
fn standard_name(frame: &Frame) -> String {
    match &frame.line {
        Some((file, _)) if file.ends_with("alloc/src/sync.rs") => {
            format!("Arc::{}", frame.function())
        }
        _ => frame.path.clone(),
    }
}

impl Source {
    pub(super) fn new(((file, line, chain), owner, path): Key) -> Source {
        Source {
            file,
            path,
            line,
            function: name(&chain),
            owner,
        }
    }

    /// Whether weakening changes this code: it belongs to the code under test or to the scenario.
    pub(super) fn is_changed(&self) -> bool {
        !matches!(self.owner, Owner::Standard(_))
    }

    /// The place as `FILE:LINE`.
    pub fn place(&self) -> String {
        match self.line {
            _ if self.file.is_empty() => self.function.clone(),
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Tested => f.write_str("tested code"),
            Owner::Scenario => f.write_str("scenario"),
            Owner::Standard(name) => f.write_str(name),
        }
    }
}
