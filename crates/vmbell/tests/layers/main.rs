//! No module imports from a higher layer, and no trait is large: `docs/architecture.md`, "Layers" and "Dispatch".
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole file is tests"
)]

mod circles;
mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The modules of crates, and of folders in them, low to high: each imports those of lower layers.
type Layers = &'static [&'static [&'static str]];
const MODULES: &[(&str, &str, Layers)] = &[
    (
        "core",
        "",
        &[
            &["addresses", "sync"],
            &["event", "lapic", "table", "vcpu_mode"],
            &["ioapic", "pv_eoi"],
        ],
    ),
    (
        "vmbell",
        "",
        &[
            &["memory", "sync"],
            &["eventfd", "quiesce", "thread"],
            &["bus", "doorbell", "irq"],
        ],
    ),
    (
        "virtqueue",
        "",
        &[
            &["brand", "error", "features", "hint", "sync"],
            &["descriptor"],
            &["memory"],
            &["indirect", "ring"],
            &["poll"],
            &["save"],
            &["device", "slots"],
            &["driver"],
            &["packed", "split"],
        ],
    ),
    (
        "hypervisor",
        "",
        &[
            &[
                "aarch64",
                "capability",
                "cpu_features",
                "exit",
                "state",
                "x86_64",
            ],
            &["error"],
            &["measure", "registration", "stage", "vcpu"],
            &["irqs"],
            &["device_memory"],
            &["config"],
            &["vm"],
            &["kvm"],
        ],
    ),
    (
        "usermode",
        "",
        &[
            &[
                "capability",
                "error",
                "hypercall_page",
                "mapping",
                "one_cpu",
                "thread",
                "wait",
            ],
            &["filter", "launch", "process"],
            &["progress"],
            &["listener", "stop"],
            &["descriptors"],
            &["halt_fds"],
            &["sandbox"],
            &["patch", "payloads", "revocation"],
            &["doorbells", "irqchip"],
            &["ram"],
            &["guest"],
            &["irqfd_watcher", "vcpu"],
            &["vm"],
            &["backend"],
        ],
    ),
    (
        "devices",
        "",
        &[
            &["snapshot"],
            &[
                "consumers",
                "doorbell_page",
                "fw_cfg",
                "listener",
                "output",
                "pc_testdev",
                "pci",
                "power",
                "reset",
                "rtc",
            ],
            &["pci_testdev", "serial", "virtio"],
            &["chr_testdev", "ioapic"],
            &["acpi"],
        ],
    ),
    (
        "devices",
        "virtio",
        &[
            &["combiner", "config", "driver"],
            &["ring"],
            &["live_ring"],
            &["request"],
            &["host_io", "queue"],
            &["blk", "console", "inverter", "net", "rng", "server"],
            &["vhost"],
            &["device"],
            &["saved"],
            &["mmio", "pci"],
        ],
    ),
    (
        "vfio",
        "",
        &[
            &["chain"],
            &["region", "irq_index", "iova", "node", "host"],
            &["error"],
            &["device"],
            &["dma", "interrupt"],
            &["kernel", "pci", "placed"],
        ],
    ),
    (
        "vfio",
        "pci",
        &[&["error", "interrupts"], &["shape"], &["function"]],
    ),
    (
        "vmm",
        "",
        &[
            &["backend", "image", "ram", "stop"],
            &["error"],
            &["off"],
            &["machine"],
            &["board_devices"],
            &["pc", "virt"],
            &["snapshot"],
        ],
    ),
];

/// The crates low to high: each may use those before it.
const CRATES: &[&str] = &[
    "kit",
    "core",
    "vmbell",
    "virtqueue",
    "hypervisor",
    "stub",
    "usermode",
    "devices",
    "guest",
    "vfio",
    "vmm",
    "testbed",
    "check",
    "cargo-vmbell-check",
    "loader",
    "lab",
    "probe-image",
    "statistics",
    "report",
    "sweep",
    "top",
    "bench",
    "cli",
    "fuzz",
];

/// Crates that use no workspace crates except the listed ones.
const ALONE: &[(&str, &[&str])] = &[
    ("kit", &[]),
    ("core", &[]),
    ("vmbell", &["core"]),
    ("stub", &["core"]),
    ("virtqueue", &[]),
    ("check", &[]),
    ("cargo-vmbell-check", &[]),
    ("loader", &[]),
    ("lab", &["loader"]),
    ("probe-image", &[]),
    ("statistics", &[]),
    ("report", &["statistics"]),
    ("sweep", &[]),
    ("top", &[]),
];

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
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
    for (name, folder, layers) in MODULES {
        imports::assert_none_upward(&crates().join(name).join("src"), folder, layers);
    }
}

/// Crates without layers whose files do not import each other in a circle either.
const WITHOUT_CIRCLES: &[&str] = &[
    "bench",
    "fuzz",
    "lab",
    "statistics",
    "sweep",
    "testbed",
    "top",
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let libraries: BTreeSet<_> = MODULES.iter().map(|(name, ..)| *name).collect();
    for name in libraries.iter().chain(WITHOUT_CIRCLES) {
        let imports = circles::assert_none(&crates().join(name).join("src"));
        assert!(imports > 5, "only {imports} imports found in {name}");
    }
}

/// The folders of the workspace crates that a manifest names as dependencies, without dev-dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let sections = manifest
        .split("\n[")
        .filter_map(|text| text.split_once("]\n"));
    sections
        .filter(|(name, _)| name.ends_with("dependencies") && !name.ends_with("dev-dependencies"))
        .flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '-'))
        .filter_map(|word| match word {
            "kit" | "testbed" | "stub" | "loader" | "vmbell" => Some(word),
            _ => word.strip_prefix("vmbell-"),
        })
}

#[test]
fn no_crate_depends_on_one_above_or_beside() {
    let count = fs::read_dir(crates()).unwrap().count();
    assert_eq!(count, CRATES.len(), "a crate has no place yet");
    let mut checked = 0;
    for (place, name) in CRATES.iter().enumerate() {
        let alone = ALONE.iter().find(|(alone, _)| alone == name);
        let lower = alone.map_or(&CRATES[..place], |(_, lower)| lower);
        let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        for dependency in dependencies(&manifest) {
            assert!(lower.contains(&dependency), "{name} uses {dependency}");
            let is_for_tests = ["kit", "testbed"].contains(&dependency);
            assert!(
                !is_for_tests || ["testbed", "fuzz"].contains(name),
                "{name} uses {dependency} outside its tests"
            );
            assert!(
                dependency != "stub" || ["usermode", "testbed"].contains(name),
                "{name} uses the stub"
            );
            checked += 1;
        }
    }
    assert!(checked > 15, "only {checked} dependencies found");
}

#[test]
fn only_the_command_line_and_the_choice_of_the_best_name_a_backend() {
    let backends = ["hypervisor/src", "usermode/src"].map(|folder| crates().join(folder));
    let best = crates().join("vmm/src/backend.rs");
    let mut checked = 0;
    for name in CRATES
        .iter()
        .filter(|name| !["cli", "testbed"].contains(name))
    {
        sources(&crates().join(name).join("src"), &mut |path, text| {
            if path == best || backends.iter().any(|folder| path.starts_with(folder)) {
                return;
            }
            for backend in ["hypervisor::kvm", "vmbell_usermode"] {
                assert!(
                    !text.contains(backend),
                    "{} names a backend",
                    path.display()
                );
            }
            checked += 1;
        });
    }
    assert!(
        checked > 200,
        "only {checked} files found: has the tree moved?"
    );
}

/// The maximum number of methods that a trait may have.
const METHODS: usize = 8;

/// The traits of a source file, with the number of their methods. The file is formatted: the methods are indented by
/// four more spaces than the trait, and its end is not.
fn traits(text: &str) -> Vec<(&str, usize)> {
    let mut traits = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = declared(&line[indent..], "trait") else {
            continue;
        };
        let is_end =
            |line: &&str| line.trim_end().ends_with('}') && !line[indent..].starts_with(' ');
        let methods = if is_end(&line) {
            0
        } else {
            let body = lines
                .by_ref()
                .take_while(|line| line.is_empty() || !is_end(line));
            let methods = body.filter(|line| {
                let line = line.get(indent + 4..).unwrap_or_default();
                declared(line, "fn").is_some()
            });
            methods.count()
        };
        traits.push((name, methods));
    }
    traits
}

/// The name that a line declares with this keyword, after any qualifiers.
fn declared<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let mut words = line.split(' ').skip_while(|word| {
        matches!(*word, "pub" | "unsafe" | "async" | "const") || word.starts_with("pub(")
    });
    if words.next() != Some(keyword) {
        return None;
    }
    words
        .next()?
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

#[test]
fn methods_of_a_trait_are_counted() {
    let text = "\
pub(super) trait Empty {}
pub unsafe trait Two<T>: Sized
where
    T: Copy,
{
    const ONE: usize;

    /// fn no_method
    fn one(&self) {
        fn inner() {}
    }
    unsafe fn two(
        &self,
    );
}
    trait Inner {
        fn one();
    }
fn none() {}
";
    assert_eq!(traits(text), [("Empty", 0), ("Two", 2), ("Inner", 1)]);
}

#[test]
fn no_trait_has_more_than_eight_methods() {
    let mut checked = 0;
    for name in CRATES {
        sources(&crates().join(name).join("src"), &mut |path, text| {
            for (name, methods) in traits(text) {
                let path = path.display();
                assert!(methods <= METHODS, "{name} of {path} has {methods} methods");
                checked += 1;
            }
        });
    }
    assert!(checked > 50, "only {checked} traits found");
}
