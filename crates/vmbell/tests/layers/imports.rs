//! Reads which modules the code of a crate imports. Tests, and what they alone use, may import anything.

use std::fs;
use std::path::{Path, PathBuf};

/// Fails if a module in `folder` of a crate's `sources` (its root is "") is in no layer, or imports from its own layer
/// or a higher one. `layers` are the modules' names, low to high. A name that the folder's own file exports counts as
/// its module's.
pub fn assert_none_upward(sources: &Path, folder: &str, layers: &[&[&str]]) {
    let sources = sources.join(folder);
    let path: String = Path::new(folder)
        .iter()
        .map(|part| format!("{}::", part.to_str().unwrap()))
        .collect();
    let path = format!("crate::{path}");
    let face = ["lib.rs", "mod.rs"].map(|name| sources.join(name));
    let face = code(face.iter().find(|file| file.exists()).unwrap());
    assert_all_listed(&face, layers);
    let exports = exports(&face);
    let layer = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let mut checked = 0;
    for (place, names) in layers.iter().enumerate() {
        for module in *names {
            for (file, depth) in files(&sources, module) {
                let code = code(&file);
                let up = "super::".repeat(depth);
                // Other names are items of the file itself, which a module inside it imports.
                let is_known = |name: &&str| {
                    layer(name).is_some() || exports.iter().any(|(other, _)| other == name)
                };
                let from_folder = names_after(&code, &up).filter(is_known);
                for import in names_after(&code, &path).chain(from_folder) {
                    let exported = exports.iter().find(|(name, _)| *name == import);
                    let from = exported.map_or(import, |(_, module)| module);
                    let is_below = layer(from).is_some_and(|other| other < place);
                    let path = file.display();
                    assert!(is_below || from == *module, "{path} imports {import}");
                    checked += usize::from(from != *module);
                }
            }
        }
    }
    let modules = layers.concat().len();
    assert!(
        checked + 1 >= modules / 2,
        "only {checked} imports of {modules} modules: has the tree moved?"
    );
}

/// Fails unless the modules that the folder's own file declares are exactly those in the layers.
fn assert_all_listed(face: &str, layers: &[&[&str]]) {
    let mut declared = Vec::new();
    let mut is_of_tests = false;
    for line in face.lines() {
        if line.starts_with("#[") {
            let words = ["test)", "loom)"];
            is_of_tests |=
                line.starts_with("#[cfg(") && words.iter().any(|word| line.contains(word));
            continue;
        }
        let module = line.strip_suffix(';').and_then(|line| {
            let (visibility, module) = line.split_once("mod ")?;
            let is_one = visibility.is_empty() || visibility.starts_with("pub");
            is_one.then_some(module)
        });
        declared.extend(module.filter(|_| !is_of_tests));
        is_of_tests = false;
    }
    let listed = layers.concat();
    for module in &declared {
        assert!(listed.contains(module), "{module} is in no layer");
    }
    for module in &listed {
        assert!(declared.contains(module), "there is no module {module}");
    }
}

/// What the folder's own file imports or exports: each name with the module that it is from.
fn exports(face: &str) -> Vec<(&str, &str)> {
    let statements = face.split(';').map(str::trim_start);
    let uses = statements.filter_map(|statement| {
        let (visibility, path) = statement.split_once("use ")?;
        let is_one = visibility.is_empty() || visibility.starts_with("pub");
        is_one.then(|| path.strip_prefix("self::").unwrap_or(path))
    });
    let names = uses.flat_map(|path| {
        let mut names = path.split(|c: char| !c.is_alphanumeric() && c != '_');
        let module = names.next().unwrap_or_default();
        names
            .filter(|name| !name.is_empty())
            .map(move |name| (name, module))
    });
    names.collect()
}

/// The source files of a module, each with the number of `super::` that lead from it to the module's folder.
fn files(sources: &Path, module: &str) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    let file = sources.join(module).with_extension("rs");
    if file.exists() {
        found.push((file, 1));
    }
    let mut folders = vec![(sources.join(module), 1)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if is_of_tests(name) {
                continue;
            }
            if path.is_dir() {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let depth = depth + usize::from(name != "mod");
                found.push((path, depth));
            }
        }
    }
    found
}

/// Whether a file or folder of this name has tests, or code that only tests use.
pub fn is_of_tests(name: &str) -> bool {
    ["tests", "models"].contains(&name) || name.ends_with("_test") || name.ends_with("_double")
}

/// The code of a file, without comments and without the tests at its end.
pub fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let is_test = |line: &&str| !line.starts_with("mod tests");
    let code = text
        .lines()
        .take_while(is_test)
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The names that code has after `path`, alone or in braces, at each place where `path` occurs.
fn names_after<'t>(code: &'t str, path: &'t str) -> impl Iterator<Item = &'t str> {
    code.match_indices(path).flat_map(move |(at, _)| {
        let rest = &code[at + path.len()..];
        let is_inside = code[..at].ends_with("super::")
            || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_inside || rest.starts_with("super::") {
            return Vec::new();
        }
        match rest.strip_prefix('{') {
            Some(group) => names_of_group(group),
            None => vec![first_name(rest)],
        }
    })
}

/// The first name of each path in a group, up to its closing brace.
fn names_of_group(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let end = group.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth < 0
    });
    let mut depth = 0;
    let paths = group[..end.unwrap_or(group.len())].split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let names = paths.map(|path| first_name(path.trim()));
    names
        .filter(|name| !name.is_empty() && *name != "super")
        .collect()
}

/// The name at the start of a path; empty if there is none.
pub fn first_name(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
    &path[..end.unwrap_or(path.len())]
}

#[test]
fn names_are_found_alone_and_in_groups() {
    let code = "use super::ring::{A, B};\nuse super::{C, deep::{D, E}, low};\nlet x = super::f();";
    let found: Vec<&str> = names_after(code, "super::").collect();
    assert_eq!(found, ["ring", "C", "deep", "low", "f"]);
}

#[test]
fn a_path_that_begins_or_ends_elsewhere_is_another() {
    let code = "use super::super::ring;\nuse vmbell_crate::bus;\nuse crate::irq;";
    assert_eq!(names_after(code, "super::").count(), 0);
    let two: Vec<&str> = names_after(code, "super::super::").collect();
    assert_eq!(two, ["ring"]);
    let root: Vec<&str> = names_after(code, "crate::").collect();
    assert_eq!(root, ["irq"]);
}
