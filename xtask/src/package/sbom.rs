//! What is linked into the program, in CycloneDX 1.5 (ECMA-424): each crate with its version, licence and the checksum of its
//! archive, and which crate uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::output;

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// The list for the command of the sources in `root`.
pub(super) fn write(root: &Path) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let host = output(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let text = output(
        Command::new(cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--filter-platform",
            ])
            .arg(host.context("rustc -vV names no host")?)
            .current_dir(root),
    )?;
    let metadata: Metadata = serde_json::from_str(&text).context("cannot read cargo metadata")?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let bom = bom(&metadata, &checksums(&lock))?;
    let mut text = serde_json::to_string_pretty(&bom)?;
    text.push('\n');
    Ok(text)
}

fn bom(metadata: &Metadata, checksums: &BTreeMap<(&str, &str), &str>) -> Result<Value> {
    let root = metadata
        .packages
        .iter()
        .find(|package| package.name == "vmbell-cli");
    let root = root.context("there is no package vmbell-cli")?;
    let used = linked(&metadata.resolve, &root.id);
    let by_id: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package))
        .collect();
    let package = |id: &str| by_id.get(id).copied().context("a package is not listed");
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (id, uses) in &used {
        let this = package(id)?;
        if this.id != root.id {
            components.push(component(this, checksums));
        }
        let uses: Vec<String> = uses
            .iter()
            .map(|id| package(id).map(url))
            .collect::<Result<_>>()?;
        dependencies.push(json!({"ref": url(this), "dependsOn": uses}));
    }
    ensure!(!components.is_empty(), "the command uses no crate");
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": url(root),
            "name": "vmbell",
            "version": root.version,
            "purl": url(root),
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Package, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": url(package),
        "name": package.name,
        "version": package.version,
        "purl": url(package),
    });
    if let Some(license) = &package.license {
        // Old crates separate two licences by a slash, which is no SPDX expression.
        let expression = license.replace('/', " OR ").replace("  OR  ", " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    let key = (package.name.as_str(), package.version.as_str());
    if let (Some(sum), Some(_)) = (checksums.get(&key), &package.source) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}

fn url(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// The packages that `root` links, itself included, each with those that it uses; what only builds or tests use is not linked.
fn linked<'m>(resolve: &'m Resolve, root: &'m str) -> BTreeMap<&'m str, BTreeSet<&'m str>> {
    let nodes: BTreeMap<&str, &Node> = resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let mut used = BTreeMap::new();
    let mut next = vec![root];
    while let Some(id) = next.pop() {
        if used.contains_key(id) {
            continue;
        }
        let is_linked =
            |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let dependencies = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let uses: BTreeSet<&str> = dependencies
            .iter()
            .filter(is_linked)
            .map(|dependency| dependency.pkg.as_str())
            .collect();
        next.extend(&uses);
        used.insert(id, uses);
    }
    used
}

/// The checksums of `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let field = |package: &'_ str, name: &str| -> Option<(usize, usize)> {
        let start = package.find(&format!("\n{name} = \""))? + name.len() + 5;
        Some((start, start + package[start..].find('"')?))
    };
    let packages = lock.split("\n[[package]]").skip(1);
    let sums = packages.filter_map(|package| {
        let value = |name| field(package, name).map(|(from, to)| &package[from..to]);
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    sums.collect()
}

#[cfg(test)]
#[path = "sbom_test.rs"]
mod tests;
