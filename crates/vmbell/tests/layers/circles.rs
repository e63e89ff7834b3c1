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

/// Fails if files of a crate import each other in a circle. A folder's own file (`lib.rs`, `mod.rs`) is a file like any
/// other: what it only re-exports counts as an import of the file that defines the name. Returns the number of imports.
pub fn assert_none(sources: &Path) -> usize {
    let mut files = Files::new();
    read_folder(sources, &Module::new(), &mut files);
    for module in files.keys() {
        let globs = glob_exports(&files, module);
        assert!(globs.is_empty(), "{module:?} exports all of {globs:?}");
    }
    let imports: Imports = files
        .keys()
        .map(|module| (module.clone(), imports(&files, module)))
        .collect();
    let circle = circle(&imports).map(|circle| circle.iter().map(|m| m.join("::")).collect());
    let circle: Option<Vec<String>> = circle;
    assert_eq!(circle, None, "in {}", sources.display());
    imports.values().map(BTreeSet::len).sum()
}

/// The code of each module.
type Files = BTreeMap<Module, File>;

struct File {
    uses: Vec<Use>,
    /// The code without its `use` statements.
    rest: String,
}

/// A name that a `use` statement brings into a module.
struct Use {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// Reads the code of each file in a folder.
fn read_folder(folder: &Path, module: &Module, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut inner = module.clone();
        if !["lib", "mod"].contains(&name) {
            inner.push(name.to_owned());
        }
        if is_of_tests(name) {
            continue;
        }
        if path.is_dir() {
            read_folder(&path, &inner, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(inner, File::of(&code(&path)));
        }
    }
}

impl File {
    /// Separates the `use` statements, each of which begins a line and ends one.
    fn of(code: &str) -> Self {
        let (mut uses, mut rest) = (Vec::new(), String::new());
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            let Some((visibility, first)) = used(line) else {
                rest.push_str(line);
                rest.push('\n');
                continue;
            };
            let mut statement = first.to_owned();
            while !statement.ends_with(';') {
                statement.push_str(lines.next().unwrap().trim());
            }
            let mut found = Vec::new();
            read_paths(&statement, Vec::new(), &mut found);
            uses.extend(found.into_iter().map(|(mut path, name)| {
                if path.last() == Some(&"self") && path.len() > 1 {
                    path.pop();
                }
                let name = match name {
                    "self" => path[path.len() - 1],
                    name => name,
                };
                Use {
                    name: name.to_owned(),
                    path: path.iter().map(|name| (*name).to_owned()).collect(),
                    is_public: !visibility.is_empty(),
                }
            }));
        }
        Self { uses, rest }
    }
}

/// The visibility of the `use` statement that a line begins, and the rest of the line.
fn used(line: &str) -> Option<(&str, &str)> {
    let (visibility, rest) = line.trim().split_once("use ")?;
    let is_one = visibility.is_empty() || visibility.starts_with("pub");
    is_one.then_some((visibility, rest))
}

/// The modules that define what a module uses. A name that it only exports is not used.
fn imports(files: &Files, module: &Module) -> BTreeSet<Module> {
    let File { uses, rest } = &files[module];
    let names: BTreeSet<&str> = rest.split(|c: char| !is_of_name(c)).collect();
    let is_used = |one: &&Use| !one.is_public || names.contains(one.name.as_str());
    let uses = uses.iter().filter(is_used).map(|one| one.path.clone());
    let inline = paths(rest, &children(files, module)).into_iter();
    let inline = inline.map(|path| path.iter().map(|name| (*name).to_owned()).collect());
    let paths = uses
        .chain(inline)
        .filter_map(|path| absolute(files, module, &path));
    let found = paths.flat_map(|path| ARCHITECTURES.map(|arch| definers(files, &path, arch)));
    found.flatten().filter(|other| other != module).collect()
}

/// The files of the crate of which a module exports all names (`pub use x::*`). Imports through those are not followed.
fn glob_exports(files: &Files, module: &Module) -> Vec<String> {
    let globs = files[module].uses.iter();
    let globs = globs.filter(|one| one.is_public && one.name.is_empty());
    let own = globs.filter(|one| absolute(files, module, &one.path).is_some());
    own.map(|one| one.path.join("::")).collect()
}

/// The names of the modules that a module declares.
fn children<'f>(files: &'f Files, module: &Module) -> Vec<&'f str> {
    let inside = |other: &&Module| other.len() == module.len() + 1 && other.starts_with(module);
    let inside = files.keys().filter(inside);
    inside.map(|other| other[module.len()].as_str()).collect()
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The paths in this code that begin with `crate`, `super` or the name of a child, outside of `use` statements.
fn paths<'t>(code: &'t str, children: &[&str]) -> Vec<Vec<&'t str>> {
    let mut found = Vec::new();
    for word in ["crate", "super"].iter().chain(children) {
        for (at, _) in code.match_indices(&format!("{word}::")) {
            let is_inside = |c: char| is_of_name(c) || c == ':' || c == '$';
            if !code[..at].ends_with(is_inside) {
                read_paths(&code[at..], Vec::new(), &mut found);
            }
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

/// Reads a path or a tree of paths that continue `path`, each with the name that it gets; returns the text after it.
fn read_paths<'t>(
    text: &'t str,
    mut path: Vec<&'t str>,
    found: &mut Vec<(Vec<&'t str>, &'t str)>,
) -> &'t str {
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
            let renamed = rest.strip_prefix(" as ").map(first_name);
            found.push((path, renamed.unwrap_or(name)));
            rest
        }
    }
}

/// The path from the crate's root, for a path in this module; `None` if it leads to another crate.
fn absolute(files: &Files, module: &Module, path: &[String]) -> Option<Module> {
    let up = path.iter().take_while(|name| *name == "super").count();
    let (above, below) = match path[0].as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (&module[..], &path[1..]),
        "super" => (&module[..module.len().saturating_sub(up)], &path[up..]),
        child if children(files, module).contains(&child) => (&module[..], path),
        _ => return None,
    };
    Some([above, below].concat())
}

/// The modules that define what is at a path from the root, found through re-exports; none if another crate does.
fn definers(files: &Files, path: &[String], arch: &str) -> Vec<Module> {
    let names = path.iter().map(|name| match name.as_str() {
        "arch" => arch.to_owned(),
        name => name.to_owned(),
    });
    let path: Module = names.collect();
    let mut starts = (0..=path.len()).rev();
    let Some(start) = starts.find(|len| files.contains_key(&path[..*len])) else {
        return Vec::new();
    };
    let (module, rest) = (path[..start].to_vec(), &path[start..]);
    let uses = files[&module].uses.iter();
    let uses = uses.filter(|one| rest.first() == Some(&one.name));
    let targets: Vec<_> = uses
        .map(|one| absolute(files, &module, &one.path).map(|to| [&to, &rest[1..]].concat()))
        .collect();
    // A module inside the file may use what the file defines.
    if targets.is_empty() || targets.contains(&Some(path)) {
        return vec![module];
    }
    let targets = targets.into_iter().flatten();
    targets.flat_map(|to| definers(files, &to, arch)).collect()
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
    let file = File::of(
        "use super::a::{B, c::{self, D as E}, F};\npub(super) use low::G;\nlet x = crate::g::h::<u8>(super::super::I, b::J);",
    );
    let uses = file.uses.iter();
    let uses: Vec<_> = uses
        .map(|one| (one.name.as_str(), one.path.join("::"), one.is_public))
        .collect();
    let expected = [
        ("B", "super::a::B", false),
        ("c", "super::a::c", false),
        ("E", "super::a::c::D", false),
        ("F", "super::a::F", false),
        ("G", "low::G", true),
    ];
    assert_eq!(
        uses,
        expected.map(|(name, path, is)| (name, path.to_owned(), is))
    );
    let found: Vec<_> = paths(&file.rest, &["b"])
        .iter()
        .map(|path| path.join("::"))
        .collect();
    assert_eq!(found, ["crate::g::h::", "super::super::I", "b::J"]);
}

#[test]
fn an_import_is_followed_through_re_exports() {
    let module = |path: &str| -> Module {
        let names = path.split("::").filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let files: Files = [
        (
            "",
            "mod low;\npub use low::deep::{Deep, Other};\nfn f(_: Other) {}",
        ),
        (
            "low",
            "pub mod deep;\npub use std::sync::Arc;\npub struct Low;",
        ),
        (
            "low::deep",
            "use super::{Arc, Low};\npub struct Deep(Arc<Low>);",
        ),
        (
            "high",
            "use crate::Deep;\nconst X: u8 = crate::low::deep::Y;",
        ),
        (
            "higher",
            "use super::low::Low as L;\nfn f() -> super::low::Arc {}",
        ),
    ]
    .into_iter()
    .map(|(path, code)| (module(path), File::of(code)))
    .collect();
    for (path, expected) in [
        ("", &["low::deep"][..]),
        ("low", &[]),
        ("low::deep", &["low"]),
        ("high", &["low::deep"]),
        ("higher", &["low"]),
    ] {
        let expected: BTreeSet<_> = expected.iter().map(|path| module(path)).collect();
        assert_eq!(imports(&files, &module(path)), expected, "of {path}");
    }
}

#[test]
fn a_glob_that_exports_another_file_is_found() {
    let all = "pub use low::*;
pub use std::fmt::*;
use low::*;
pub use low::{A, B};";
    let files: Files = [("", all), ("low", "pub struct A;")]
        .into_iter()
        .map(|(path, code)| {
            let names = path.split("::").filter(|name| !name.is_empty());
            (names.map(str::to_owned).collect(), File::of(code))
        })
        .collect();
    assert_eq!(glob_exports(&files, &Module::new()), ["low::"]);
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
