//! `.ci/run` with steps that take no time: which steps it repeats, when it stops, the contents of its table, and what
//! it keeps for the next clone.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Steps where `b` needs `a`, and reports that it passed two tests.
const STEPS: &str = r#"
steps='a  the first one
b  the second one
c  the third one
'
first=a
left_to_other_commits() { echo; }
needs() { [ "$1" != b ] || echo a; }
inputs() { case $1 in b) echo b.txt ;; c) echo . ;; esac; }
step_a() { echo ran a >>"$cache/ran"; }
step_b() { echo ran b >>"$cache/ran"; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; }
step_c() { echo ran c >>"$cache/ran"; }
"#;

/// A clone with such steps, and the cache of a machine.
struct Clone {
    folder: TempDir,
    cache: PathBuf,
}

impl Clone {
    fn new(cache: &Path, steps: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clone = Self {
            folder,
            cache: cache.to_owned(),
        };
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci");
        fs::create_dir(clone.path(".ci")).unwrap();
        for script in ["run", "passed.sh", "third-party.sh"] {
            fs::copy(scripts.join(script), clone.path(".ci").join(script)).unwrap();
        }
        clone.write(".ci/steps.sh", steps);
        clone.write(".gitignore", "/target\n");
        clone.write("Cargo.toml", "[package]\nname = \"own\"\n");
        clone.write("Cargo.lock", "");
        clone.write("b.txt", "1");
        clone.git(&["init", "--quiet"]);
        clone.commit();
        clone
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, words: &[&str]) {
        let mut git = Command::new("git");
        git.current_dir(&self.folder)
            .args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        assert!(git.args(words).status().unwrap().success());
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    }

    /// Runs `.ci/run` with these words. Returns the steps that ran, and the output.
    fn run(&self, words: &[&str]) -> (String, Output) {
        let ran = self.cache.join("vmbell/ci/ran");
        let _ = fs::remove_file(&ran);
        let output = Command::new(self.path(".ci/run"))
            .args(words)
            .env("XDG_CACHE_HOME", &self.cache)
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        let ran = fs::read_to_string(ran).unwrap_or_default();
        let mut ran: Vec<&str> = ran.lines().map(|line| &line["ran ".len()..]).collect();
        ran.sort_unstable();
        (ran.concat(), output)
    }
}

fn said(output: &Output) -> String {
    // The shell reports killed processes on standard error.
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the words of a step's line in the final table.
fn row(output: &Output, step: &str) -> String {
    let said = said(output);
    let line = said
        .lines()
        .rfind(|line| line.split_whitespace().next() == Some(step));
    let words: Vec<&str> = line
        .unwrap_or_else(|| panic!("{said}"))
        .split_whitespace()
        .collect();
    words[3..].join(" ")
}

#[test]
fn what_passed_before_with_the_same_inputs_is_not_repeated_and_its_tests_are_counted() {
    let cache = tempfile::tempdir().unwrap();
    let clone = Clone::new(cache.path(), STEPS);
    let (ran, output) = clone.run(&[]);
    assert_eq!(ran, "abc", "{}", said(&output));
    assert_eq!(row(&output, "b"), "2 ok");
    assert!(said(&output).ends_with("\n2 passed, 0 failed, 0 skipped\n"));

    // `a` has no inputs that could be compared, so it always runs.
    let (ran, output) = clone.run(&[]);
    assert_eq!(ran, "a", "{}", said(&output));
    assert!(row(&output, "b").starts_with("2 passed before, at "));
    assert!(said(&output).ends_with("\n2 passed, 0 failed, 0 skipped\n"));

    // Another clone on the same machine.
    assert_eq!(Clone::new(cache.path(), STEPS).run(&[]).0, "a");
    assert_eq!(clone.run(&["--all"]).0, "abc");
    assert_eq!(clone.run(&["b"]).0, "ab");

    clone.write("c.txt", "");
    clone.commit();
    assert_eq!(clone.run(&[]).0, "ac");
    clone.write("b.txt", "2");
    clone.commit();
    assert_eq!(clone.run(&[]).0, "abc");
}

#[test]
fn a_tree_with_changes_is_neither_recorded_nor_taken_for_its_commit() {
    let cache = tempfile::tempdir().unwrap();
    let clone = Clone::new(cache.path(), STEPS);
    clone.write("new.txt", "");
    assert_eq!(clone.run(&[]).0, "abc");
    assert_eq!(clone.run(&[]).0, "abc");
    fs::remove_file(clone.path("new.txt")).unwrap();
    assert_eq!(clone.run(&[]).0, "abc");
    clone.write("b.txt", "2");
    assert_eq!(clone.run(&[]).0, "abc");
}

#[test]
fn a_broken_first_step_ends_the_run_and_a_broken_other_one_only_what_needs_it() {
    let cache = tempfile::tempdir().unwrap();
    let ends = format!(
        "{STEPS}
        step_a() {{ until [ -e $cache/c ]; do sleep 0.1; done; false; }}
        step_c() {{ touch $cache/c; sleep 1000; }}"
    );
    let (_, output) = Clone::new(cache.path(), &ends).run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(row(&output, "a"), "0 FAILED");
    assert_eq!(row(&output, "b"), "0 FAILED: not begun, because a failed");
    let (begin, end) = ("0 FAILED: ended after ", " s, because a failed");
    let c = row(&output, "c");
    assert!(c.starts_with(begin) && c.ends_with(end), "{c}");
    assert!(said(&output).ends_with("\n0 passed, 3 failed, 0 skipped\n"));

    let goes_on = ends.replace("first=a", "first=none").replace("1000", "1");
    let (_, output) = Clone::new(cache.path(), &goes_on).run(&[]);
    assert_eq!(row(&output, "b"), "0 FAILED: it needs a");
    assert_eq!(row(&output, "c"), "0 ok");
}

#[test]
fn a_run_that_takes_too_long_fails_and_names_the_step_that_it_waits_for() {
    let cache = tempfile::tempdir().unwrap();
    let slow = format!("{STEPS}longest=2 beat=1; step_a() {{ sleep 1000; }}");
    let (_, output) = Clone::new(cache.path(), &slow).run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let (a, b) = (row(&output, "a"), row(&output, "b"));
    let reason = "because the run took longer than 2 s";
    assert!(
        a.starts_with("0 FAILED: ended after ") && a.ends_with(reason),
        "{a}"
    );
    assert_eq!(b, format!("0 FAILED: not begun, {reason}"));
}

#[test]
fn retries_are_counted_and_named() {
    let cache = tempfile::tempdir().unwrap();
    let retry = "retry: ends: 1, log in target/ci/retries/ends.log";
    let steps = format!("{STEPS}step_c() {{ echo '{retry}'; }}");
    let (_, output) = Clone::new(cache.path(), &steps).run(&[]);
    assert_eq!(row(&output, "c"), "0 ok, 1 retried");
    let said = said(&output);
    let (_, end) = said.rsplit_once("\n\nstep ").unwrap();
    assert!(end.ends_with("skipped\n"));
    assert_eq!(said.matches(retry).count(), 2, "{said}");
}

/// Returns the pages in the root and in docs/ that are inputs of a step of this repository.
fn pages(step: &str) -> Vec<String> {
    const SCRIPT: &str = ". .ci/steps.sh; set -f; git ls-files -- $(inputs \"$0\")";
    let output = Command::new("bash")
        .args(["-c", SCRIPT, step])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .unwrap();
    let files = said(&output);
    assert!(files.contains("crates/cli/src/"), "{output:?}");
    let is_page = |file: &&str| {
        let name = file.strip_prefix("docs/").unwrap_or(file);
        name.ends_with(".md") && !name.contains('/')
    };
    files.lines().filter(is_page).map(str::to_owned).collect()
}

#[test]
fn a_step_is_repeated_for_the_pages_that_it_reads_and_for_no_other() {
    assert_eq!(pages("lab"), [""; 0]);
    assert_eq!(pages("deb"), ["CHANGELOG.md", "README.md"]);
    assert_eq!(pages("fleet"), ["docs/fleet.md"]);
    assert!(pages("words").len() > 20);
}

#[test]
fn the_next_clone_gets_the_third_party_crates_and_no_other() {
    const UNITS: [&str; 3] = [
        "other-0123456789abcdef",
        "own-123456789abcdef0",
        "half-23456789abcdef01",
    ];
    let newer = |unit: &str| {
        let (package, hash) = unit.rsplit_once('-').unwrap();
        format!("target/miri/debug/build/{package}/{hash}")
    };
    let cache = tempfile::tempdir().unwrap();
    let clone = Clone::new(cache.path(), STEPS);
    // A folder at the depth of the subjects' build folder.
    let profile = "target/subjects/vmbell-check/0123/x86_64-unknown-linux-gnu/debug";
    for unit in UNITS {
        clone.write(&format!("{profile}/deps/lib{unit}.rlib"), unit);
        clone.write(&format!("{profile}/build/{unit}/out/a.rs"), unit);
        clone.write(
            &format!("{profile}/.fingerprint/{unit}/invoked.timestamp"),
            "",
        );
        // The layout of newer versions of cargo.
        let newer = newer(unit);
        clone.write(&format!("{newer}/out/lib{unit}.rlib"), unit);
        clone.write(&format!("{newer}/fingerprint/invoked.timestamp"), "");
    }
    // A unit that cargo has not finished has no such file.
    for unit in &UNITS[..2] {
        clone.write(&format!("{profile}/.fingerprint/{unit}/lib.json"), "{}");
        clone.write(&format!("{}/fingerprint/lib.json", newer(unit)), "{}");
    }
    clone.run(&["c"]);

    let next = Clone::new(cache.path(), STEPS);
    next.run(&["c"]);
    for (unit, is_there) in UNITS.iter().zip([true, false, false]) {
        for file in [
            format!("deps/lib{unit}.rlib"),
            format!("build/{unit}/out/a.rs"),
            format!(".fingerprint/{unit}/lib.json"),
        ] {
            let path = next.path(profile).join(&file);
            assert_eq!(path.exists(), is_there, "{file}");
        }
        let rlib = format!("{}/out/lib{unit}.rlib", newer(unit));
        assert_eq!(next.path(&rlib).exists(), is_there, "{rlib}");
    }
    // A different compiler or Cargo.lock has a different folder.
    let other = Clone::new(cache.path(), STEPS);
    other.write("Cargo.lock", "# other\n");
    other.run(&["c"]);
    assert!(!other.path(profile).exists());
}
