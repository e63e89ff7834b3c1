//! The order of a crate's modules: none imports one of its own layer or above. It reads the sources of the crate, on the
//! test's thread.

use std::fs;
use std::path::{Path, PathBuf};

/// Fails if a module of the crate in the folder `manifest` imports a module of its layer or above, or is in no layer.
/// `layers` are the names of modules, low to high. A name with a capital is something that the crate's root exports, of the
/// module that stands before it.
pub fn assert_no_import_upward(manifest: &str, layers: &[&[&str]]) {
    let src = Path::new(manifest).join("src");
    let layer = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let mut checked = 0;
    for (path, modules) in files(&src, &src) {
        let Some(module) = modules.first() else {
            continue;
        };
        let place = layer(module);
        let place = place.unwrap_or_else(|| panic!("{module} is in no layer"));
        let own = own_exports(layers[place], module);
        let text = fs::read_to_string(&path).unwrap();
        for import in imports(&text, modules.len()) {
            let is_below = layer(import).is_some_and(|other| other < place);
            let path = path.display();
            assert!(
                is_below || import == module || own.contains(&import),
                "{path} imports {import}"
            );
            checked += 1;
        }
    }
    assert!(checked > 10, "only {checked} imports: has the tree moved?");
}

/// What the root exports of a module: the names with a capital that follow it in its layer.
fn own_exports<'l>(layer: &[&'l str], module: &str) -> Vec<&'l str> {
    let after = layer.iter().skip_while(|name| **name != module).skip(1);
    let is_export = |name: &&&str| name.starts_with(char::is_uppercase);
    after.take_while(is_export).copied().collect()
}

/// The source files in a folder, with the names of the modules that lead to each; the root's are none.
fn files(src: &Path, folder: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(src, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let inner = path.strip_prefix(src).unwrap().with_extension("");
            let names = inner.iter().map(|name| name.to_str().unwrap().to_owned());
            let mut names: Vec<_> = names.collect();
            names.pop_if(|name| ["mod", "lib"].contains(&name.as_str()));
            // A test of a file is its child, by an attribute.
            if let Some(last) = names.last_mut()
                && let Some(module) = last.strip_suffix("_test")
            {
                *last = module.to_owned();
                names.push("tests".to_owned());
            }
            found.push((path, names));
        }
    }
    found
}

/// What a file at this depth imports from the crate's root: the names after `crate::` and after that number of `super::`.
fn imports(text: &str, depth: usize) -> impl Iterator<Item = &str> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(move |line| {
        let from_root = line.split("crate::").skip(1);
        let up = "super::".repeat(depth);
        let parts: Vec<&str> = line.split(&*up).collect();
        // More of them would be a module of the code's own.
        let from_here = (parts.len() == 2 && !parts[0].ends_with("super::"))
            .then(|| parts[1])
            .filter(|rest| !rest.starts_with("super::"));
        from_root
            .chain(from_here)
            .map(name)
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>()
    })
}

/// The first name of a path.
fn name(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
    &path[..end.unwrap_or(path.len())]
}
