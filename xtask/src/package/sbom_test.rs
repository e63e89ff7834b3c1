use super::*;
use crate::artifacts;

fn written() -> Value {
    serde_json::from_str(&write(artifacts::root()).unwrap()).unwrap()
}

#[test]
fn the_list_is_what_cargo_tree_says_is_linked() {
    let tree = output(
        Command::new("cargo")
            .args([
                "tree",
                "--package",
                "vmbell-cli",
                "--edges",
                "normal",
                "--prefix",
                "none",
            ])
            .args(["--no-dedupe", "--locked", "--format", "{p}"])
            .current_dir(artifacts::root()),
    )
    .unwrap();
    let linked: BTreeSet<String> = tree
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let (name, version) = (words.next().unwrap(), words.next().unwrap());
            format!("pkg:cargo/{name}@{}", version.trim_start_matches('v'))
        })
        .filter(|url| !url.starts_with("pkg:cargo/vmbell-cli@"))
        .collect();
    let bom = written();
    let listed: BTreeSet<String> = bom["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|component| component["purl"].as_str().unwrap().to_owned())
        .collect();
    // cargo tree leaves out the dependencies of procedural macros, which run in the compiler; here they are listed.
    assert!(
        listed.is_superset(&linked),
        "{:?}",
        linked.difference(&listed)
    );
    assert!(
        !listed
            .iter()
            .any(|url| url.contains("/criterion@") || url.contains("/proptest@"))
    );
}

#[test]
fn every_crate_of_the_registry_has_a_checksum_and_a_licence() {
    for component in written()["components"].as_array().unwrap() {
        let name = component["name"].as_str().unwrap();
        assert!(component["licenses"].is_array(), "{name}");
        if !name.starts_with("vmbell") {
            let sum = component["hashes"][0]["content"].as_str().unwrap();
            assert_eq!(sum.len(), 64, "{name}");
        }
    }
}

#[test]
fn every_dependency_is_a_component() {
    let bom = written();
    let known: BTreeSet<&str> = bom["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|component| component["bom-ref"].as_str().unwrap())
        .collect();
    for dependency in bom["dependencies"].as_array().unwrap() {
        for used in dependency["dependsOn"].as_array().unwrap() {
            assert!(known.contains(used.as_str().unwrap()), "{used}");
        }
    }
}
