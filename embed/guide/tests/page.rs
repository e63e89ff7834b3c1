//! `docs/guide.md` shows this package: its blocks are these files, and its programs print what the page says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

/// The root of this package.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The blocks of the page: the words after the fence, and the text.
fn blocks() -> Vec<(String, String)> {
    let page = fs::read_to_string(Path::new(ROOT).join("../../docs/guide.md")).unwrap();
    let mut lines = page.lines();
    let next = || {
        let words = lines.find_map(|line| line.strip_prefix("```"))?.to_owned();
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        Some((words, text.join("\n") + "\n"))
    };
    iter::from_fn(next).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn blocks_of_a_file_are_the_whole_file() {
    let mut shown = BTreeMap::new();
    for (words, text) in blocks() {
        if let Some((_, file)) = words.split_once(' ') {
            let blocks: &mut Vec<String> = shown.entry(file.to_owned()).or_default();
            blocks.push(text);
        }
    }
    let there = files(&Path::new(ROOT).join("src"));
    let there = there.iter().map(|path| {
        let name = path.strip_prefix(ROOT).unwrap().to_str().unwrap();
        (name.to_owned(), fs::read_to_string(path).unwrap())
    });
    let there: BTreeMap<String, String> = there.collect();
    let shown: BTreeMap<String, String> = shown
        .into_iter()
        .map(|(file, blocks)| (file, blocks.join("\n")))
        .collect();
    assert_eq!(
        shown.keys().collect::<Vec<_>>(),
        there.keys().collect::<Vec<_>>()
    );
    for (file, text) in there {
        assert_eq!(shown[&file], text, "{file}");
    }
}

#[test]
fn the_page_names_each_dependency() {
    let names = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.map(|(name, _)| name.to_owned()).collect()
    };
    let blocks = blocks().into_iter().filter(|(words, _)| words == "toml");
    let shown = blocks.flat_map(|(_, text)| names(&text)).collect();
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    assert_eq!(names(dependencies), shown);
}

#[test]
fn programs_print_what_the_page_says() {
    let programs = Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().unwrap();
    let mut run = 0;
    for (_, text) in blocks().iter().filter(|(words, _)| words == "console") {
        let (command, printed) = text.split_once('\n').unwrap();
        let Some(name) = command.strip_prefix("$ cargo run --quiet --bin ") else {
            continue;
        };
        // On KVM, the programs run in the lab. They print the same there.
        let name = name.strip_suffix(" kvm").unwrap_or(name);
        let output = Command::new(programs.join(name)).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), printed, "{name}");
        run += 1;
    }
    assert_eq!(run, 4, "one for each program, and one of them on KVM");
}
