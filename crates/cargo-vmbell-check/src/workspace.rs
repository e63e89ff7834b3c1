//! The workspace under test, as `cargo metadata` describes it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::args::Invocation;
use crate::error::Error;
use crate::toolchain::cargo;

/// The package with the hooks.
const CHECKER: &str = "vmbell-check";

/// The answer of `cargo metadata`.
#[derive(Debug)]
pub(crate) struct Workspace {
    metadata: Value,
}

impl Workspace {
    /// Asks cargo about the workspace of the current folder, or of `--manifest-path`.
    ///
    /// # Errors
    ///
    /// Fails with cargo's own words if there is no Cargo.toml, or if it cannot be read or resolved.
    pub(crate) fn read(invocation: &Invocation) -> Result<Self, Error> {
        let cargo = cargo();
        let output = Command::new(&cargo)
            // Optional dependencies count, because only cargo knows which features enable them.
            .args(["metadata", "--format-version", "1", "--all-features"])
            .args(&invocation.metadata_args)
            .output()
            .map_err(Error::start(&cargo))?;
        if !output.status.success() {
            return Err(Error::Workspace(message(&output.stderr)));
        }
        let metadata = serde_json::from_slice(&output.stdout).map_err(|error| {
            Error::Workspace(format!(
                "cannot read the answer of `cargo metadata`: {error}"
            ))
        })?;
        Ok(Self { metadata })
    }

    /// The folder in which cargo puts its builds; this program chooses a folder inside.
    pub(crate) fn target_dir(&self) -> PathBuf {
        self.metadata["target_directory"]
            .as_str()
            .unwrap_or("target")
            .into()
    }

    /// Checks that a chosen package depends on the checker, directly or through another package.
    pub(crate) fn check_dependency(&self, invocation: &Invocation) -> Result<(), Error> {
        let chosen = self.chosen(invocation);
        // cargo's own message about an unknown package is more useful.
        if chosen.is_empty() || self.reaches_checker(&chosen) {
            return Ok(());
        }
        let names: Vec<String> = chosen
            .iter()
            .map(|id| format!("`{}`", self.name(id)))
            .collect();
        Err(Error::NoDependency {
            packages: names.join(", "),
        })
    }

    /// The ids of the packages whose tests or programs cargo will build.
    fn chosen(&self, invocation: &Invocation) -> Vec<&str> {
        let members = ids(&self.metadata["workspace_members"]);
        if invocation.whole_workspace {
            return members;
        }
        if !invocation.packages.is_empty() {
            let named = |id: &&str| {
                let matches = |spec: &String| spec.split('@').next() == Some(self.name(id));
                invocation.packages.iter().any(matches)
            };
            return members.into_iter().filter(named).collect();
        }
        // In a member's folder cargo takes that member, in the root the default members.
        match self.metadata["resolve"]["root"].as_str() {
            Some(root) if !self.is_at_root(root) => vec![root],
            _ => ids(&self.metadata["workspace_default_members"]),
        }
    }

    fn is_at_root(&self, id: &str) -> bool {
        let root = self.metadata["workspace_root"].as_str().unwrap_or_default();
        let manifest = self
            .package(id)
            .and_then(|package| package["manifest_path"].as_str());
        manifest.and_then(|manifest| manifest.strip_suffix("/Cargo.toml")) == Some(root)
    }

    fn reaches_checker(&self, from: &[&str]) -> bool {
        let nodes = self.metadata["resolve"]["nodes"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let dependencies: HashMap<&str, Vec<&str>> = nodes
            .iter()
            .filter_map(|node| Some((node["id"].as_str()?, ids(&node["dependencies"]))))
            .collect();
        let mut seen = HashSet::new();
        let mut open = from.to_vec();
        while let Some(id) = open.pop() {
            if self.name(id) == CHECKER {
                return true;
            }
            if seen.insert(id) {
                open.extend(dependencies.get(id).into_iter().flatten());
            }
        }
        false
    }

    fn name(&self, id: &str) -> &str {
        self.package(id)
            .and_then(|package| package["name"].as_str())
            .unwrap_or_default()
    }

    fn package(&self, id: &str) -> Option<&Value> {
        self.metadata["packages"]
            .as_array()?
            .iter()
            .find(|package| package["id"] == id)
    }
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns cargo's own message, without its progress. A missing dependency takes several lines.
fn message(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.split_once("error: ")
        .map_or(text.trim(), |(_, message)| message.trim())
        .to_owned()
}
