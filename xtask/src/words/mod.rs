//! Finds phrases that a native reader stumbles over, and counts the words of the pages.

mod check;
mod list;
mod prose;

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artifacts;
use crate::package::output;
use check::{Findings, Place};
use list::List;
use prose::Kind;

/// Check the prose of pages, comments and messages against xtask/words.toml
///
/// Refused phrases fail, unless a comment on the same line or the line above allows one with a reason:
/// `words: allow "PHRASE": REASON`. The number of each counted phrase and the words of all pages may only fall.
#[derive(Debug, clap::Args)]
pub(crate) struct WordsArgs {
    /// Lower the numbers in xtask/words.toml to those found; none is raised
    #[arg(long)]
    update: bool,
}

pub(crate) fn run(args: &WordsArgs) -> Result<()> {
    let root = artifacts::root();
    let path = root.join(list::PATH);
    let mut text = read(&path)?.with_context(|| format!("there is no {}", list::PATH))?;
    let mut list = List::parse(&text)?;
    let files = files(root)?;
    let findings = Findings::of(&list, &files);
    if args.update {
        let counts: Vec<usize> = findings.counted.iter().map(Vec::len).collect();
        text = list::lowered(&text, &counts, findings.words())?;
        fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        list = List::parse(&text)?;
    }
    for (page, words) in &findings.pages {
        println!("{words:>6}  {page}");
    }
    println!(
        "{:>6}  all; the limit is {}",
        findings.words(),
        list.pages.limit
    );
    let problems = findings.problems(&list, || changed(root));
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => bail!("problems with the words: {count}"),
    }
}

/// Returns path and text of each file to check, including new files.
fn files(root: &Path) -> Result<Vec<(String, String)>> {
    let listed = git(
        root,
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let mut files = Vec::new();
    for path in listed.split_terminator('\0') {
        if path == list::PATH || Kind::of(path).is_none() {
            continue;
        }
        // The file may be deleted, but still in the index.
        if let Some(text) = read(&root.join(path))? {
            files.push((path.to_owned(), text));
        }
    }
    Ok(files)
}

/// Returns the text of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read
            .map(Some)
            .with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Returns the lines that changed since the last commit of the list; none if git cannot tell.
fn changed(root: &Path) -> HashSet<Place> {
    let commit = git(root, &["log", "-1", "--format=%H", "--", list::PATH]);
    let diff = commit.and_then(|commit| {
        git(
            root,
            &[
                "diff",
                "--unified=0",
                "--no-ext-diff",
                "--src-prefix=a/",
                "--dst-prefix=b/",
                commit.trim(),
            ],
        )
    });
    changed_in(&diff.unwrap_or_default())
}

/// Returns the lines that a diff without context adds.
fn changed_in(diff: &str) -> HashSet<Place> {
    let (mut places, mut path) = (HashSet::new(), "");
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            path = name;
        }
        // `@@ -1,2 +3,4 @@`; the number of lines is left out if it is 1.
        let Some(added) = line
            .strip_prefix("@@ -")
            .and_then(|line| line.split(['+', ' ']).nth(2))
        else {
            continue;
        };
        let (first, count) = added.split_once(',').unwrap_or((added, "1"));
        if let (Ok(first), Ok(count)) = (first.parse::<usize>(), count.parse::<usize>()) {
            places.extend((first..first + count).map(|line| Place {
                path: path.to_owned(),
                line,
            }));
        }
    }
    places
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    output(Command::new("git").current_dir(root).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_names_the_lines_that_it_adds() {
        let diff = "--- a/b.rs\n+++ b/b.rs\n@@ -1,2 +3,2 @@ fn a()\n-x\n+y\n+z\n@@ -9 +10 @@\n@@ -12,3 +11,0 @@\n";
        let lines = [3, 4, 10].map(|line| Place {
            path: "b.rs".to_owned(),
            line,
        });
        assert_eq!(changed_in(diff), HashSet::from(lines));
    }
}
