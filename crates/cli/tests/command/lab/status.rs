//! `vmbell lab status` and `clean`: the entries of the cache and their names.

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::contains;

use vmbell_lab::ProvisionKind;
use vmbell_lab::cache::Cache;

use super::support::Sandbox;

#[test]
fn a_home_is_needed() {
    let sandbox = Sandbox::new();
    // A relative path would depend on the working directory.
    for (cache, home) in [("", ""), ("cache", "home"), ("", ".")] {
        let mut command = sandbox.vmbell();
        command.env("XDG_CACHE_HOME", cache).env("HOME", home);
        let assert = command.args(["lab", "status"]).assert().code(125);
        let needed = "neither XDG_CACHE_HOME nor HOME is an absolute path";
        assert.stderr(contains(needed));
    }
}

#[test]
fn the_status_names_entries_of_every_kind_and_those_of_no_kind_as_old() {
    const OLD: &str = ", of another version of vmbell";
    let sandbox = Sandbox::new();
    let cache = Cache::at(sandbox.path("cache/vmbell/lab"));
    let lock = cache.lock_prepare(|| ()).unwrap();
    let kinds = ProvisionKind::ALL.iter().map(|kind| kind.name());
    for kind in kinds.clone().chain(["former"]) {
        let draft = cache.draft(&lock, &format!("{kind}-hash")).unwrap();
        draft.commit(format!("a {kind}"), Vec::new()).unwrap();
    }
    let mut command = sandbox.vmbell();
    let assert = command.args(["lab", "status"]).assert().success();
    let said = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let line = |kind: &str| {
        let begins = format!("{kind}-hash 0 B 0 B a {kind}");
        let mut lines = said.lines().map(words);
        let found = lines.find_map(|line| line.strip_prefix(&begins).map(str::to_owned));
        found.unwrap_or_else(|| panic!("{kind}: {said}"))
    };
    // The recipes of these kinds do not depend on a run.
    let fixed = ["qemu", "linux", "shell"];
    for kind in kinds {
        let old = if fixed.contains(&kind) { OLD } else { "" };
        assert_eq!(line(kind), old, "{kind}");
    }
    assert_eq!(line("former"), OLD);
}

#[test]
fn an_empty_cache_has_a_key_of_one_word_a_status_and_can_be_cleaned() {
    let sandbox = Sandbox::new();
    let said = |words: &str| {
        let mut command = sandbox.vmbell();
        command.arg("lab").args(words.split(' '));
        command.assert().success()
    };
    said("status --key").stdout(key("vmbell-lab-qemu-#-linux-#-shell-#"));
    assert!(!sandbox.path("cache").exists(), "a key needs a cache");
    said("status").stdout(contains("not prepared").count(3));
    let row = contains("\n| `shell` | not prepared for ");
    said("status --export-markdown -").stdout(row);
    said("clean").stdout(contains("removed 0 B from"));
}

/// The words of a table's row, separated by single blanks.
fn words(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a row of the output begins with these words.
pub fn has_row(said: &str, begin: &str) -> bool {
    said.lines().any(|row| words(row).starts_with(begin))
}

/// A line of these words, in which each `#` is a hash.
pub fn key(words: &str) -> impl predicates::Predicate<str> + use<> {
    let words: Vec<_> = words.split('-').map(str::to_owned).collect();
    let is_hash = |part: &str| part.len() == 12 && part.bytes().all(|b| b.is_ascii_hexdigit());
    predicate::function(move |line: &str| {
        let parts: Vec<_> = line.strip_suffix('\n').unwrap_or("").split('-').collect();
        let mut pairs = parts.iter().zip(&words);
        parts.len() == words.len()
            && pairs.all(|(part, word)| {
                if word == "#" {
                    is_hash(part)
                } else {
                    part == word
                }
            })
    })
}
