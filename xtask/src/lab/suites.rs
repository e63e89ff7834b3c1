//! Finds the tests that are ignored by default, and the stage for each of them.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::artifacts::TestBinary;

/// The test binaries whose tests boot the lab themselves, for this machine's architecture and for arm64.
pub(super) const OWN: &str = "lab_boot";
pub(super) const OWN_ARM64: &str = "lab_boot_arm64";
/// The test binary with guests on every backend, and the one whose guests have assigned devices.
pub(super) const GUESTS: &str = "hypervisor";
pub(super) const ASSIGNED: &str = "vfio";
/// A string in every program with KVM tests: the reason why they are ignored.
const MARK: &[u8] = b"needs /dev/kvm: cargo xtask lab";
/// The module that contains the KVM tests.
const KVM: &str = "kvm::";

/// A test binary, and the names of the tests to run.
#[derive(Clone, Debug)]
pub(super) struct TestSuite {
    pub(super) binary: TestBinary,
    pub(super) tests: Vec<String>,
}

/// All test binaries with ignored tests, by the stage that runs them.
#[derive(Debug)]
pub(super) struct TestSuites {
    /// The lab's own tests.
    pub(super) own: TestSuite,
    /// The tests that run on KVM in the lab.
    pub(super) on_kvm: Vec<TestSuite>,
}

impl TestSuites {
    /// Keeps only the tests with `filter` in `BINARY::TEST`.
    pub(super) fn filtered(mut self, filter: &str) -> Result<Self> {
        for suite in self.on_kvm.iter_mut().chain([&mut self.own]) {
            let binary = &suite.binary.name;
            suite
                .tests
                .retain(|test| format!("{binary}::{test}").contains(filter));
        }
        self.on_kvm.retain(|suite| !suite.tests.is_empty());
        ensure!(
            !self.on_kvm.is_empty() || !self.own.tests.is_empty(),
            "no test that needs the lab has '{filter}' in its name"
        );
        Ok(self)
    }
}

/// Asks every binary for its ignored tests. A test that is neither the lab's own nor a KVM test would never run, so it
/// is an error.
pub(super) fn find(binaries: &[TestBinary]) -> Result<TestSuites> {
    let mut own = None;
    let mut on_kvm = Vec::new();
    for binary in binaries {
        let names = ignored(binary)?;
        if names.is_empty() {
            continue;
        }
        if binary.name == OWN_ARM64 {
            // These tests need a command that was built for arm64.
            continue;
        }
        let is_own = binary.name == OWN;
        if let Some(name) = names.iter().find(|name| !is_own && !is_on_kvm(name)) {
            bail!(
                "{}: {name} is ignored and in no module {KVM}, so no run includes it",
                binary.name
            );
        }
        let suite = TestSuite {
            binary: binary.clone(),
            tests: names,
        };
        if is_own {
            own = Some(suite);
            continue;
        }
        on_kvm.push(suite);
    }
    ensure!(!on_kvm.is_empty(), "no test is in a module {KVM}");
    Ok(TestSuites {
        own: own.with_context(|| format!("no tests in {OWN}"))?,
        on_kvm,
    })
}

/// Finds the binaries with KVM tests among those that cannot run on this machine.
pub(super) fn find_foreign(binaries: &[TestBinary]) -> Result<Vec<TestBinary>> {
    let mut found = Vec::new();
    for binary in binaries {
        let bytes = std::fs::read(&binary.path)
            .with_context(|| format!("cannot read {}", binary.path.display()))?;
        if bytes.windows(MARK.len()).any(|window| window == MARK) {
            found.push(binary.clone());
        }
    }
    ensure!(!found.is_empty(), "no test is in a module {KVM}");
    Ok(found)
}

/// Returns the test binary of this name with its ignored tests.
pub(super) fn named(binaries: &[TestBinary], name: &str) -> Result<TestSuite> {
    let binary = binaries.iter().find(|binary| binary.name == name);
    let binary = binary.with_context(|| format!("no tests in {name}"))?;
    Ok(TestSuite {
        binary: binary.clone(),
        tests: ignored(binary)?,
    })
}

fn is_on_kvm(name: &str) -> bool {
    name.starts_with(KVM) || name.contains(&format!("::{KVM}"))
}

fn ignored(binary: &TestBinary) -> Result<Vec<String>> {
    let output = Command::new(&binary.path)
        .args(["--list", "--ignored", "--format", "terse"])
        .output()
        .with_context(|| format!("cannot run {}", binary.path.display()))?;
    ensure!(
        output.status.success(),
        "{} cannot list its tests",
        binary.path.display()
    );
    let list = String::from_utf8_lossy(&output.stdout);
    Ok(names(&list).map(str::to_owned).collect())
}

/// Returns the names in a terse list of Rust's test harness.
pub(super) fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Returns the number of KVM tests in a terse list; an error names a test that no run includes.
pub(super) fn listed(list: &str) -> Result<usize, String> {
    match names(list).find(|name| !is_on_kvm(name)) {
        Some(name) => Err(format!("{name} is in no module {KVM}")),
        None => Ok(names(list).count()),
    }
}

/// Returns the number of tests that passed, from a summary of Rust's test harness.
pub(super) fn passed(output: &str) -> Option<usize> {
    let summary = output
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("test result: "))?;
    let (_, counts) = summary.split_once(". ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_how_many_passed() {
        let text = "running 2 tests\ntest kvm::a ... ok\ntest kvm::b ... ok\n\n\
                    test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out\n";
        assert_eq!(passed(text), Some(2));
        assert_eq!(
            passed("test result: FAILED. 16 passed; 13 failed; 0 ignored"),
            Some(16)
        );
        assert_eq!(passed("running 2 tests\n"), None);
    }

    #[test]
    fn a_list_counts_the_tests_on_kvm_and_refuses_others() {
        assert_eq!(listed("kvm::a: test\nrules::kvm::b: test\n"), Ok(2));
        assert_eq!(
            listed("kvm::a: test\nb: test\n"),
            Err("b is in no module kvm::".to_owned())
        );
    }

    #[test]
    fn a_filter_is_a_part_of_the_name_of_a_binary_or_a_test() {
        let suite = |name: &str, tests: &[&str]| TestSuite {
            binary: TestBinary {
                name: name.to_owned(),
                path: name.into(),
            },
            tests: tests.iter().map(ToString::to_string).collect(),
        };
        let names = |filter| {
            let suites = TestSuites {
                own: suite(OWN, &["linux::boots"]),
                on_kvm: vec![
                    suite("exits", &["kvm::a"]),
                    suite("irq", &["kvm::a", "x::kvm::b"]),
                ],
            };
            let TestSuites { own, on_kvm } = suites.filtered(filter)?;
            let tests = |suite: TestSuite| suite.tests;
            Ok::<_, anyhow::Error>((own.tests, on_kvm.into_iter().map(tests).collect::<Vec<_>>()))
        };
        assert_eq!(names("irq::x").unwrap().1, [["x::kvm::b"]]);
        assert_eq!(names("kvm::a").unwrap().1, [["kvm::a"], ["kvm::a"]]);
        let (own, on_kvm) = names("linux").unwrap();
        assert_eq!((own.len(), on_kvm.len()), (1, 0));
        let error = names("none").unwrap_err().to_string();
        assert_eq!(error, "no test that needs the lab has 'none' in its name");
    }

    #[test]
    fn a_module_of_another_name_is_not_kvm() {
        assert!(is_on_kvm("kvm::a") && is_on_kvm("rules::kvm::a"));
        assert!(!is_on_kvm("no_kvm::a") && !is_on_kvm("kvm_a"));
    }
}
