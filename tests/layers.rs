//! Nothing imports upward: `docs/architecture.md`, "Layers".
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

use std::fs;
use std::path::Path;

/// Low to high; modules of one layer may use each other's neighbours below only.
const LAYERS: &[&[&str]] = &[
    &["quiesce", "eventfd", "lab", "report"],
    &["bus", "doorbell", "irq", "virtqueue"],
    &["hypervisor"],
    &["device", "guest"],
    &["machine"],
    &["bench"],
    &["cli"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Every `crate::name` in a source file.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        &rest[..end]
    })
}

fn sources(folder: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn no_module_imports_from_above_or_beside() {
    let mut checked = 0;
    for (place, modules) in LAYERS.iter().enumerate() {
        for module in *modules {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src")
                .join(module);
            sources(&folder, &mut |path, text| {
                for import in imports(text) {
                    let allowed =
                        import == *module || layer(import).is_none_or(|other| other < place);
                    assert!(allowed, "{} imports crate::{import}", path.display());
                    checked += 1;
                }
            });
        }
    }
    assert!(
        checked > 50,
        "only {checked} imports found: has the tree moved?"
    );
}

#[test]
fn only_the_command_line_names_a_backend() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&src, &mut |path, text| {
        let inside = path.strip_prefix(&src).unwrap();
        if inside.starts_with("hypervisor") || inside.starts_with("cli") {
            return;
        }
        assert!(
            !text.contains("hypervisor::usermode"),
            "{} names a backend",
            inside.display()
        );
    });
}
