//! Finds files of a crate that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::imports::{code, first_name, is_of_tests};

/// The names that lead from a crate's root to a module.
type Module = Vec<String>;
/// Which modules each module imports from.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Architectures whose folder is the module `arch` of a backend.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

/// Fails if files of a crate import each other in a circle. A folder's own file (`lib.rs`, `mod.rs`) is in no circle:
/// it names what its folder has, and may define what the files in the folder share. Returns the number of imports.
pub fn assert_none(sources: &Path) -> usize {
    let mut texts = BTreeMap::new();
    read_folder(sources, &Module::new(), &mut texts);
    let imports: Imports = texts
        .iter()
        .map(|(module, text)| {
            let paths = paths(text).into_iter().flat_map(|path| {
                let path = absolute(module, &path);
                ARCHITECTURES.map(|arch| found(&texts, &path, arch))
            });
            let others = paths.flatten().filter(|other| other != module);
            (module.clone(), others.collect())
        })
        .collect();
    let circle = circle(&imports).map(|circle| circle.iter().map(|m| m.join("::")).collect());
    let circle: Option<Vec<String>> = circle;
    assert_eq!(circle, None, "in {}", sources.display());
    imports.values().map(BTreeSet::len).sum()
}

/// Reads the code of each file in a folder except the folder's own.
fn read_folder(folder: &Path, module: &Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut inner = module.clone();
        inner.push(name.to_owned());
        if is_of_tests(name) || ["lib", "mod"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            read_folder(&path, &inner, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.insert(inner, code(&path));
        }
    }
}

/// The paths in this code that begin with `crate` or `super`, each alone or in a tree in braces.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let is_inside = |c: char| c.is_alphanumeric() || "_:$".contains(c);
            if !code[..at].ends_with(is_inside) {
                read_paths(&code[at..], Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads a path or a tree of paths that continue `path`; returns the text after it.
fn read_paths<'t>(text: &'t str, mut path: Vec<&'t str>, found: &mut Vec<Vec<&'t str>>) -> &'t str {
    if let Some(mut group) = text.strip_prefix('{') {
        while !group.is_empty() && !group.starts_with('}') {
            let rest = read_paths(group, path.clone(), found);
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            group = rest[end..].trim_start_matches(',').trim_start();
        }
        return group.strip_prefix('}').unwrap_or(group);
    }
    let text = text.trim_start();
    let name = first_name(text);
    let rest = &text[name.len()..];
    path.push(name);
    match rest.strip_prefix("::") {
        Some(rest) if !name.is_empty() => read_paths(rest, path, found),
        _ => {
            found.push(path);
            rest
        }
    }
}

/// The path from the crate's root, for a path in this module.
fn absolute(module: &Module, path: &[&str]) -> Module {
    let up = path.iter().take_while(|name| **name == "super").count();
    let above = match path[0] {
        "crate" => &[],
        _ => &module[..module.len().saturating_sub(up)],
    };
    let below = path.iter().skip(up.max(1)).map(|name| (*name).to_owned());
    above.iter().cloned().chain(below).collect()
}

/// The module in which a path from the root ends, if it has its own file.
fn found(texts: &BTreeMap<Module, String>, path: &Module, arch: &str) -> Option<Module> {
    let names = path.iter().map(|name| match name.as_str() {
        "arch" => arch.to_owned(),
        name => name.to_owned(),
    });
    let names: Module = names.collect();
    let starts = (1..=names.len()).map(|len| names[..len].to_vec());
    starts.rev().find(|start| texts.contains_key(start))
}

/// A circle of modules, if there is one.
fn circle(imports: &Imports) -> Option<Vec<&Module>> {
    let mut done = BTreeSet::new();
    let mut way = Vec::new();
    imports
        .keys()
        .find_map(|module| circle_from(module, imports, &mut way, &mut done))
}

fn circle_from<'i>(
    module: &'i Module,
    imports: &'i Imports,
    way: &mut Vec<&'i Module>,
    done: &mut BTreeSet<&'i Module>,
) -> Option<Vec<&'i Module>> {
    if let Some(start) = way.iter().position(|before| *before == module) {
        return Some(way[start..].to_vec());
    }
    if !done.insert(module) {
        return None;
    }
    way.push(module);
    let circle = imports[module]
        .iter()
        .find_map(|other| circle_from(other, imports, way, done));
    way.pop();
    circle
}

#[test]
fn paths_are_read_alone_and_in_trees() {
    let code =
        "use super::a::{B, c::{self, D as E}, F};\nlet x = crate::g::h::<u8>(super::super::I);";
    let found: Vec<_> = paths(code).iter().map(|path| path.join("::")).collect();
    let expected = [
        "crate::g::h::",
        "super::a::B",
        "super::a::c::self",
        "super::a::c::D",
        "super::a::F",
        "super::super::I",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_circle_is_found_and_a_diamond_is_none() {
    let module = |name: char| vec![name.to_string()];
    let imports = |pairs: &[(char, &str)]| -> Imports {
        let of =
            |(name, others): &(char, &str)| (module(*name), others.chars().map(module).collect());
        pairs.iter().map(of).collect()
    };
    let diamond = imports(&[('a', "bc"), ('b', "d"), ('c', "d"), ('d', "")]);
    assert_eq!(circle(&diamond), None);
    let round = imports(&[('a', "b"), ('b', "cd"), ('c', ""), ('d', "b")]);
    assert_eq!(circle(&round), Some(vec![&module('b'), &module('d')]));
}
