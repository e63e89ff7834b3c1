//! The sites of the code under test whose order can be weakened, named by their source lines.
//!
//! Copies of one function that the compiler inlined in several places, or made for several types, are one site.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::panic::Location;
use std::path::{Path, PathBuf};

use super::Effect;
use crate::code::{Frame, Origin, frames};
use crate::graph::Order;
use crate::model::Model;
use crate::search::{CallSite, Operation};

/// An order in the code under test, and what weakening it does.
#[derive(Debug)]
pub struct Site {
    /// The file, from its package's folder on. Empty if the code has no debug information.
    pub file: String,
    /// The line, or 0 if the code has none, as where the compiler merged it.
    pub line: u32,
    /// The function, and the functions of the same package into which it is inlined.
    pub function: String,
    /// Whose code it is.
    pub owner: Owner,
    /// What the order belongs to.
    pub operation: Operation,
    /// The order that the code asks for.
    pub order: Order,
    /// What a weaker order does, under each model that has memory orders.
    pub effects: Vec<(Model, Effect)>,
    pub(super) calls: Vec<CallSite>,
}

/// Whose code a site is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The code under test.
    Tested,
    /// The file that sets the scenario up.
    Scenario,
    /// The standard library, such as `Arc::drop`. Such a site is not weakened.
    Standard(String),
}

/// Names the sites and sorts them by line. `scenario` is the place of the call that explores.
pub(super) fn sites(
    calls: impl IntoIterator<Item = CallSite>,
    scenario: &Location<'_>,
    only: Option<&(String, u32)>,
) -> Vec<Site> {
    // The caller's file is relative, as `src/lib.rs`, which also ends the path of a dependency's file.
    let package_of_test = env::var_os("CARGO_MANIFEST_DIR");
    let is_scenario = |file: &Path| {
        let own = package_of_test.as_ref();
        file.ends_with(scenario.file()) && own.is_none_or(|own| file.starts_with(own))
    };
    let mut found: BTreeMap<_, Vec<CallSite>> = BTreeMap::new();
    for call in calls {
        let inside = frames(call.caller);
        let own = frames(call.own);
        let own: Vec<&Frame> = own
            .iter()
            .filter(|frame| frame.origin == Origin::Own)
            .collect();
        if only.is_some_and(|only| !own.iter().any(|frame| is_at(frame, only))) {
            continue;
        }
        let has_line = |frame: &&&Frame| frame.line.as_ref().is_some_and(|(_, line)| *line > 0);
        let place = own.iter().find(has_line).or(own.first());
        let place = place.and_then(|frame| frame.line.clone());
        let package = place.as_ref().map(|(file, _)| package(file));
        let is_in_package = |frame: &&&Frame| {
            let of = frame.line.as_ref();
            of.map(|(file, _)| self::package(file)) == package
        };
        // Each function with its line, or with the offset in the function if it has no debug information.
        let chain: Vec<(String, u32, usize)> = own
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
            (None, Some((file, _))) if is_scenario(file) => Owner::Scenario,
            _ => Owner::Tested,
        };
        let file = place.as_ref().zip(package).map(|((file, _), package)| {
            let parent = package.parent().unwrap_or(&package);
            file.strip_prefix(parent)
                .unwrap_or(file)
                .display()
                .to_string()
        });
        let line = place.map_or(0, |(_, line)| line);
        let key = (
            (file.unwrap_or_default(), line, chain),
            (call.operation, call.order, owner),
        );
        found.entry(key).or_default().push(call);
    }
    found
        .into_iter()
        .map(
            |(((file, line, chain), (operation, order, owner)), calls)| Site {
                file,
                line,
                function: name(&chain),
                owner,
                operation,
                order,
                effects: Vec::new(),
                calls,
            },
        )
        .collect()
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

/// The folder of a file's package, or the file's own folder if it is in no package.
fn package(file: &Path) -> PathBuf {
    let folders = || file.ancestors().skip(1);
    let found = folders().find(|folder| folder.join("Cargo.toml").is_file());
    found.or(file.parent()).unwrap_or(file).to_path_buf()
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

impl Site {
    /// Whether the site is weakened: it belongs to the code under test or to the scenario.
    pub(super) fn is_weakened(&self) -> bool {
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
