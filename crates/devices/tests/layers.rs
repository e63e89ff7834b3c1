//! Nothing imports upward: each module of the crate, and each of the virtio devices, uses those before it in a list.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the crate, low to high.
const CRATE: &[&str] = &[
    "consumers",
    "doorbell_page",
    "fw_cfg",
    "listener",
    "output",
    "pc_testdev",
    "power",
    "reset",
    "rtc",
    "serial",
    "ioapic",
    "pci",
    "pci_testdev",
    "virtio",
    "chr_testdev",
    "acpi",
];

/// Those of `virtio`: the values, a ring and its requests, the queues and what serves them, the devices, the registers.
const VIRTIO: &[&str] = &[
    "config",
    "features",
    "coalescing",
    "combiner",
    "notification",
    "refusal",
    "driver_side",
    "slices",
    "ring",
    "live_ring",
    "request",
    "host_io",
    "blk",
    "console",
    "inverter",
    "net",
    "rng",
    "queue",
    "server",
    "poller",
    "queues",
    "vhost",
    "device",
    "control",
    "mmio",
    "pci",
];

/// The names that the lines of code name after `path`, alone or in braces.
fn names<'t>(code: &'t str, path: &'t str) -> impl Iterator<Item = &'t str> {
    code.split(path).skip(1).flat_map(|rest| {
        let group = rest.strip_prefix('{').and_then(|rest| {
            let mut depth = 0;
            let end = rest.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth < 0
            });
            rest.get(..end?)
        });
        let one = rest
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        let mut depth = 0;
        let many = group.map(|group| {
            group.split(move |c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                c == ',' && depth == 0
            })
        });
        let many = many.into_iter().flatten().map(|name| {
            let name = name.trim();
            name.split("::").next().unwrap_or(name)
        });
        let one = one.filter(|_| group.is_none());
        one.into_iter().chain(many).filter(|name| !name.is_empty())
    })
}

/// The code of a file, without comments and without the tests at its end.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("mod tests"));
    let code = lines.filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The files of a module that are not for tests.
fn files(module: &Path) -> Vec<PathBuf> {
    if !module.is_dir() {
        return vec![module.with_extension("rs")];
    }
    let entries = fs::read_dir(module)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sources = entries.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_test = name == "tests" || name.ends_with("test.rs") || name.ends_with("_double.rs");
        !is_test && (path.is_dir() || name.ends_with(".rs"))
    });
    sources
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// How many imports the modules of a folder have of one another, whose path from the root of the crate is `path`. An item
/// that the folder's own file hands on is one from above.
fn count_imports(folder: &str, path: &str, modules: &[&str]) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(folder);
    let face = ["lib.rs", "mod.rs"].map(|name| folder.join(name));
    let face = code(face.iter().find(|file| file.exists()).unwrap());
    let is_declared = |module: &str| {
        let mut lines = face.lines();
        lines.any(|line| line.ends_with(&format!("mod {module};")))
    };
    let is_listed = |line: &str| {
        modules
            .iter()
            .any(|module| line.ends_with(&format!("mod {module};")))
    };
    let mut before = "";
    for line in face.lines() {
        let is_test = before.starts_with("#[cfg");
        assert!(
            !line.ends_with(';') || !line.contains("mod ") || is_test || is_listed(line),
            "{line} has no place yet"
        );
        before = line;
    }
    let mut checked = 0;
    for (place, module) in modules.iter().enumerate() {
        assert!(is_declared(module), "{module} is not there");
        let own = folder.join(module);
        for file in files(&own) {
            let code = code(&file);
            // What `super` is in the module's own file.
            let is_own = file == own.join("mod.rs") || file == own.with_extension("rs");
            let relative = names(&code, "super::").filter(|_| is_own);
            for name in names(&code, path).chain(relative) {
                let lower = name == *module || modules[..place].contains(&name);
                assert!(lower, "{} imports {path}{name}", file.display());
                checked += usize::from(name != *module);
            }
        }
    }
    checked
}

#[test]
fn no_module_of_the_crate_imports_from_above() {
    let checked = count_imports("", "crate::", CRATE);
    assert!(checked > 5, "only {checked} imports found");
}

#[test]
fn no_module_of_the_virtio_devices_imports_from_above() {
    let checked = count_imports("virtio", "crate::virtio::", VIRTIO);
    assert!(checked > 60, "only {checked} imports found");
}

#[test]
fn names_are_found_alone_and_in_groups() {
    let code = "use super::ring::{A, B};\nuse super::{C, deep::{D, E}, low};\nlet x = super::f();";
    let found: Vec<&str> = names(code, "super::").collect();
    assert_eq!(found, ["ring", "C", "deep", "low", "f"]);
}
