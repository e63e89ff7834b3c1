//! Runs the KVM tests: all test binaries one after the other, in one boot.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::LabLauncher;
use super::stage::StageCounts;
use super::suites::{ASSIGNED, GUESTS, TestSuite, listed, names, passed};
use crate::artifacts::TestBinary;
use crate::child::{self, Finished};

/// Returns the script that runs in L1. It runs the tests of each suite between two marks.
fn script(suites: &[TestSuite]) -> String {
    let run = |suite: &TestSuite| {
        let path = suite.binary.path.display();
        let tests = suite.tests.join(" ");
        format!("echo '== begin {path}'; '{path}' --ignored --exact {tests}; echo \"== end $?\"\n")
    };
    suites.iter().map(run).collect()
}

/// Returns the script for binaries that cannot run on this machine. It also lists the tests of each binary that match
/// the given words of Rust's test harness, because only L1 can list them.
fn listing_script<'a>(
    binaries: impl IntoIterator<Item = (&'a TestBinary, &'a [&'a str])>,
) -> String {
    let run = |(binary, words): (&TestBinary, &[&str])| {
        let path = binary.path.display();
        let words = words.join(" ");
        format!(
            "echo '== list {path}'; '{path}' --list --format terse {words}; \
             echo '== begin {path}'; '{path}' {words}; echo \"== end $?\"\n"
        )
    };
    binaries.into_iter().map(run).collect()
}

/// Returns the list of a binary's tests from the output of such a script.
fn listed_by<'a>(child: &'a Finished, binary: &TestBinary) -> Result<&'a str, String> {
    let begin = format!("== list {}\n", binary.path.display());
    let list = child.stdout.rsplit_once(&begin);
    let list = list.and_then(|(_, rest)| rest.split_once("== begin "));
    list.map_or(Err("it was not listed".to_owned()), |(list, _)| Ok(list))
}

/// The time limit for all tests together, and for a boot. Only a hang takes this long.
const LIMIT: &str = "40m";
/// L1's memory. Half of it is for files: the binaries.
const MEMORY: &str = "2G";

/// The devices of L1 that tests assign to guests, and the modules with these tests. Without devices L1 starts faster.
const DEVICES: [&str; 4] = ["--device", "edu", "--device", "e1000e"];
const OF_DEVICES: [&str; 2] = ["passthrough::", "pc::"];

/// The test module in [`GUESTS`] whose tests run a second time, with the kernel module kvm_ioeventfd, and the options
/// for that run.
const OF_DOORBELLS: &str = "doorbell::";
pub(super) const GROUPS: [&str; 3] = ["--kernel", "debian:6.12", "--kvm-ioeventfd"];
/// The option for a kernel with lockdep, KASAN and kmemleak.
pub(super) const DEBUG_KERNEL: &str = "--debug-kernel";

/// An arm64 L1. Two emulated CPUs often wait for each other: while another boot ran, the tests of `exits` took 46 s
/// with two CPUs and 3 s with one. So only the tests of an assigned device get two CPUs, because one of them needs two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arm64 {
    Gicv3,
    Gicv2,
    Pl031,
}

/// The modules of [`GUESTS`] whose tests depend on the version of the interrupt controller of L1 and its guests.
const OF_BOTH_VERSIONS: [&str; 2] = ["arm64::", "interrupts::"];
/// The module of [`ASSIGNED`] with the tests of a device.
const OF_A_DEVICE: [&str; 1] = ["passthrough::"];

/// The binary with vmbell-check's tests, and those that depend on the CPU: hooks, the guard, crashes and some traces.
const OF_THE_CHECKER: &str = "executions";
const PROCESSOR_WORDS: [&str; 4] = ["hook", "instrumentation", "crashes::", "rings::a_"];

impl Arm64 {
    /// Returns the options of L1.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Gicv3 => &["--gic", "3", "--vcpus", "1"],
            Self::Gicv2 => &["--gic", "2", "--vcpus", "1"],
            Self::Pl031 => &["--gic", "3", "--vcpus", "2", "--device", "pl031"],
        }
    }

    /// Returns the modules that run only here. If there are none, everything runs that is not left to another L1.
    const fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Gicv3 => &[],
            Self::Gicv2 => &OF_BOTH_VERSIONS,
            Self::Pl031 => &OF_A_DEVICE,
        }
    }

    /// Returns whether tests of this binary run here.
    fn has(self, binary: &TestBinary) -> bool {
        match self {
            Self::Gicv3 => binary.name != ASSIGNED,
            Self::Gicv2 => binary.name == GUESTS,
            Self::Pl031 => binary.name == ASSIGNED,
        }
    }

    /// Returns how many of the listed tests run here; an error names a module without tests.
    fn count(self, list: &str) -> Result<usize, String> {
        let is_missing = |module: &&&str| !list.lines().any(|line| line.starts_with(**module));
        if let Some(module) = self.modules().iter().find(is_missing) {
            return Err(format!("it has no test in {module}"));
        }
        listed(list)
    }
}

/// Boots once and runs all suites.
pub(super) fn run(
    launcher: LabLauncher<'_>,
    suites: &[TestSuite],
) -> Result<(StageCounts, Vec<String>)> {
    let is_of_devices = |test: &String| OF_DEVICES.iter().any(|module| test.starts_with(module));
    let assigns = |suite: &TestSuite| suite.tests.iter().any(is_of_devices);
    let devices = if suites.iter().any(assigns) {
        &DEVICES[..]
    } else {
        &[]
    };
    run_on(launcher, "kvm", devices, suites)
}

/// Boots once with the module kvm_ioeventfd, and runs the tests that depend on it.
pub(super) fn run_with_groups(
    launcher: LabLauncher<'_>,
    suites: &[TestSuite],
) -> Result<(StageCounts, Vec<String>)> {
    run_on(launcher, "groups", &GROUPS, &[of_doorbells(suites)?])
}

/// Runs the suites on a kernel that checks itself. The lab fails if the kernel reports a problem.
pub(super) fn run_on_debug_kernel(
    launcher: LabLauncher<'_>,
    suites: &[TestSuite],
) -> Result<(StageCounts, Vec<String>)> {
    let options = [&GROUPS[..], &[DEBUG_KERNEL]].concat();
    run_on(launcher, "debug-kernel", &options, &[of_doorbells(suites)?])
}

/// Runs the selftests of ioeventfds on a kernel that checks itself, with the module kvm_ioeventfd.
pub(super) fn run_selftests_on_debug_kernel(
    launcher: LabLauncher<'_>,
) -> Result<(StageCounts, Vec<String>)> {
    let mut command = launcher.lab(&["selftests", "--limit", LIMIT, "--boot-timeout", LIMIT]);
    command.args(GROUPS).args([DEBUG_KERNEL, "ioeventfd_*"]);
    let child = child::run(&mut command)?;
    let passed = child.stdout.lines().find_map(|line| {
        let (count, rest) = line.split_once(" pass, ")?;
        rest.starts_with("0 skip, 0 fail")
            .then(|| count.parse().ok())?
    });
    let counts = StageCounts {
        passed: passed.unwrap_or_default(),
        ..StageCounts::told(&child, "selftests", 0)?
    };
    let is_good = child.status.success() && passed.is_some();
    let failure = format!("a selftest did not pass: {}", child.status);
    Ok((counts, (!is_good).then_some(failure).into_iter().collect()))
}

fn of_doorbells(suites: &[TestSuite]) -> Result<TestSuite> {
    let guests = suites.iter().find(|suite| suite.binary.name == GUESTS);
    let mut suite = guests
        .with_context(|| format!("no tests in {GUESTS}"))?
        .clone();
    suite.tests.retain(|test| test.starts_with(OF_DOORBELLS));
    ensure!(
        !suite.tests.is_empty(),
        "no tests in {GUESTS}::{OF_DOORBELLS}"
    );
    Ok(suite)
}

fn run_on(
    launcher: LabLauncher<'_>,
    name: &str,
    options: &[&str],
    suites: &[TestSuite],
) -> Result<(StageCounts, Vec<String>)> {
    let binaries: Vec<&TestBinary> = suites.iter().map(|suite| &suite.binary).collect();
    let child = boot(launcher, options, &script(suites), &binaries)?;
    let tests = |binary: &TestBinary| {
        let suite = suites.iter().find(|suite| suite.binary.path == binary.path);
        Ok(suite.map_or(0, |suite| suite.tests.len()))
    };
    judge(&child, name, &binaries, tests)
}

/// Boots an arm64 L1 once, and runs all KVM tests in these binaries that are meant for this machine.
pub(super) fn run_on_arm64(
    launcher: LabLauncher<'_>,
    machine: Arm64,
    binaries: &[TestBinary],
) -> Result<(StageCounts, Vec<String>)> {
    let is_for_it = |binary: &&TestBinary| machine.has(binary);
    let binaries: Vec<&TestBinary> = binaries.iter().filter(is_for_it).collect();
    ensure!(!binaries.is_empty(), "no tests for {machine:?}");
    let words = [&["--ignored"], machine.modules()].concat();
    let script = listing_script(binaries.iter().map(|&binary| (binary, &*words)));
    let child = boot(launcher, machine.options(), &script, &binaries)?;
    let tests = |binary: &TestBinary| machine.count(listed_by(&child, binary)?);
    judge(&child, &format!("{machine:?}"), &binaries, tests)
}

/// Boots an arm64 L1 once and runs the tests of vmbell-check that depend on the processor.
pub(super) fn run_checker_on_arm64(
    launcher: LabLauncher<'_>,
    binaries: &[TestBinary],
) -> Result<(StageCounts, Vec<String>)> {
    let binary = binaries
        .iter()
        .find(|binary| binary.name == OF_THE_CHECKER)
        .with_context(|| format!("no tests in {OF_THE_CHECKER}"))?;
    let script = listing_script([(binary, &PROCESSOR_WORDS[..])]);
    let binaries = [binary];
    let child = boot(launcher, Arm64::Gicv3.options(), &script, &binaries)?;
    let tests = |binary: &TestBinary| match names(listed_by(&child, binary)?).count() {
        0 => Err("no test has these names".to_owned()),
        count => Ok(count),
    };
    judge(&child, "vmbell-check", &binaries, tests)
}

/// Runs the script in L1 with all binaries.
fn boot(
    launcher: LabLauncher<'_>,
    options: &[&str],
    script: &str,
    binaries: &[&TestBinary],
) -> Result<Finished> {
    let mut command = launcher.lab(&["--timeout", LIMIT, "--boot-timeout", LIMIT]);
    command.args(["--retries", "1", "--memory", MEMORY]);
    command.args(options);
    if launcher.arm64.is_none() {
        // Some tests start the command.
        command.arg("--with").arg(launcher.vmbell);
    }
    for binary in binaries {
        command.arg("--with").arg(&binary.path);
    }
    command.args(["--", "/bin/sh", "-c", script, "sh"]);
    command.args(binaries.iter().map(|binary| &binary.path));
    child::run(&mut command)
}

/// Compares the number of tests that passed with the number of tests in each binary.
fn judge(
    child: &Finished,
    name: &str,
    binaries: &[&TestBinary],
    tests: impl Fn(&TestBinary) -> Result<usize, String>,
) -> Result<(StageCounts, Vec<String>)> {
    let mut counts = StageCounts::told(child, name, 0)?;
    let mut failures = Vec::new();
    if !child.status.success() {
        failures.push(format!("the lab failed: {}", child.status));
    }
    for binary in binaries {
        let name = &binary.name;
        let tests = match tests(binary) {
            Ok(tests) => tests,
            Err(reason) => {
                failures.push(format!("{name}: {reason}"));
                continue;
            }
        };
        match outcome(&child.stdout, &binary.path) {
            Some((0, passed)) if passed == tests => counts.passed += passed,
            Some((status, passed)) => {
                counts.passed += passed;
                failures.push(format!(
                    "{name}: {passed} of {tests} tests passed, exit status {status}"
                ));
            }
            None => failures.push(format!("{name}: it did not finish")),
        }
    }
    Ok((counts, failures))
}

/// Returns a binary's exit status and how many of its tests passed, from the output between its marks.
fn outcome(output: &str, binary: &Path) -> Option<(i32, usize)> {
    let begin = format!("== begin {}\n", binary.display());
    // The last begin mark counts: a boot that was repeated has left output before it.
    let (_, rest) = output.rsplit_once(&begin)?;
    let (own, rest) = rest.split_once("\n== end ")?;
    let status = rest.lines().next()?.parse().ok()?;
    Some((status, passed(own).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "== begin /t/a\n\nrunning 2 tests\n\
        test result: ok. 2 passed; 0 failed\n\n== end 0\n\
        == begin /t/b\n\nrunning 3 tests\n\
        test result: FAILED. 1 passed; 2 failed\n\n== end 101\n\
        == begin /t/c\nrunning";

    #[test]
    fn the_script_names_each_test_of_its_binary_alone() {
        let suite = |path: &str, tests: &[&str]| TestSuite {
            binary: TestBinary {
                name: String::new(),
                path: path.into(),
            },
            tests: tests.iter().map(ToString::to_string).collect(),
        };
        let suites = [
            suite("/t/a", &["kvm::x", "kvm::y"]),
            suite("/t/b", &["kvm::x"]),
        ];
        assert_eq!(
            script(&suites),
            "echo '== begin /t/a'; '/t/a' --ignored --exact kvm::x kvm::y; echo \"== end $?\"\n\
             echo '== begin /t/b'; '/t/b' --ignored --exact kvm::x; echo \"== end $?\"\n"
        );
    }

    #[test]
    fn each_binary_has_its_own_outcome() {
        assert_eq!(outcome(OUTPUT, Path::new("/t/a")), Some((0, 2)));
        assert_eq!(outcome(OUTPUT, Path::new("/t/b")), Some((101, 1)));
    }

    #[test]
    fn of_a_repeated_boot_the_second_counts() {
        let again = format!("{OUTPUT}== begin /t/a\ntest result: ok. 1 passed\n== end 0\n");
        assert_eq!(outcome(&again, Path::new("/t/a")), Some((0, 1)));
        let again = format!("{OUTPUT}\n{OUTPUT}");
        assert_eq!(outcome(&again, Path::new("/t/c")), None);
    }

    #[test]
    fn a_machine_misses_a_module_without_tests() {
        let list = "arm64::exits::kvm::a: test\ndoorbell::kvm::b: test\n";
        assert_eq!(Arm64::Gicv3.count(list), Ok(2));
        let missing = |module: &str| Err(format!("it has no test in {module}"));
        assert_eq!(Arm64::Gicv2.count(list), missing("interrupts::"));
        assert_eq!(Arm64::Pl031.count(list), missing("passthrough::"));
        assert_eq!(Arm64::Pl031.count("passthrough::kvm::a: test\n"), Ok(1));
    }

    #[test]
    fn a_binary_that_did_not_finish_has_none() {
        assert_eq!(outcome(OUTPUT, Path::new("/t/c")), None);
        assert_eq!(outcome(OUTPUT, Path::new("/t/d")), None);
    }
}
