//! Rules for all files of the workspace.
//!
//! - No test asserts a duration, because a busy host makes every duration longer. Tests wait for conditions
//!   (`crates/kit/src/wait.rs`), and check anything about time through pure functions of time.
//! - A crate whose documentation tests are off has no example that would be one.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

use std::fs;
use std::path::Path;

/// Calls that read a clock.
const CLOCKS: [&str; 3] = [".elapsed()", "Instant::now()", "SystemTime::now()"];

/// Visits every source file below a folder.
fn sources(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path);
        }
    }
}

/// Whether a file has tests: its name says so, or it is in a folder for tests.
fn is_of_tests(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_in = |part| path.components().any(|one| one.as_os_str() == part);
    name == "test.rs"
        || name.ends_with("_test.rs")
        || is_in("tests")
        || is_in("fuzz")
        || is_in("kit")
}

/// Every `assert!`, `assert_eq!` and so on, from its name to the end of its statement.
fn assertions(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("assert").filter_map(|(start, _)| {
        let rest = &text[start..];
        let (name, _) = rest.split_once("!(")?;
        let is_macro = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_macro.then(|| &rest[..rest.find(");").unwrap_or(rest.len())])
    })
}

fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap().parent().unwrap()
}

#[test]
fn no_test_asserts_how_long_something_took() {
    let root = root();
    let mut checked = 0;
    for folder in ["crates", "xtask", "fuzz"] {
        sources(&root.join(folder), &mut |path| {
            if !is_of_tests(path.strip_prefix(root).unwrap()) {
                return;
            }
            for assertion in assertions(&fs::read_to_string(path).unwrap()) {
                let reads = CLOCKS.iter().find(|clock| assertion.contains(**clock));
                assert!(reads.is_none(), "{}: {assertion}", path.display());
                checked += 1;
            }
        });
    }
    assert!(
        checked > 1000,
        "only {checked} assertions found: has the tree moved?"
    );
}

#[test]
fn no_crate_has_examples_that_are_not_tested() {
    let mut checked = 0;
    for package in fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap().path();
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        if !manifest.contains("doctest = false") {
            continue;
        }
        sources(&package.join("src"), &mut |path| {
            let text = fs::read_to_string(path).unwrap();
            let mut is_open = false;
            for line in text.lines() {
                let line = line.trim_start();
                let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
                if let Some(fence) = comment.and_then(|text| text.trim_start().strip_prefix("```"))
                {
                    is_open = !is_open;
                    let is_example = is_open && !["text", "json", "toml", "sh"].contains(&fence);
                    assert!(!is_example, "{}: {line}", path.display());
                }
            }
        });
        checked += 1;
    }
    assert!(
        checked >= 8,
        "only {checked} crates found: has the tree moved?"
    );
}
