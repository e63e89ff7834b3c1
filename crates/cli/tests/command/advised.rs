//! Each command for the lab in a help text or page is tested: see [`ALL`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::common::{stdout, vmbell};
use kit::advised::{ALL, Tested, commands};

/// The commands whose help has examples.
const COMMANDS: [&[&str]; 14] = [
    &[],
    &["bench"],
    &["bench", "eoi"],
    &["bench", "net"],
    &["bench", "rings"],
    &["bench", "vmms"],
    &["gate"],
    &["lab"],
    &["lab", "prepare"],
    &["lab", "kernel"],
    &["lab", "kernel", "prepare"],
    &["lab", "kernel", "selftests"],
    &["run"],
    &["sweep"],
];

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_command_for_the_lab_that_the_readme_and_the_help_advise_is_tested() {
    let mut texts = vec![file("../../README.md")];
    texts.extend(COMMANDS.map(|command| stdout(vmbell(command).arg("--help"))));
    let advised: BTreeSet<String> = texts.iter().flat_map(|text| commands(text)).collect();
    let tested: BTreeSet<String> = ALL
        .iter()
        .map(|(command, _)| (*command).to_owned())
        .collect();
    let difference: Vec<_> = advised.symmetric_difference(&tested).collect();
    assert!(
        difference.is_empty(),
        "advised or tested, but not both: {difference:#?}"
    );
    for (command, tested) in ALL {
        if let Tested::By(path, test) = tested {
            let is_there = file(&format!("tests/{path}")).contains(&format!("\nfn {test}("));
            assert!(is_there, "{command}: {path} has no {test}");
        }
    }
}
