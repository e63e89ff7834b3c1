use std::fs;
use std::path::Path;

use super::*;

/// A host with these files.
fn found(files: &[(&str, &[u8])]) -> Vec<Finding> {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = root.path().join(name.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    find(&HostFiles::new(root.path()))
}

fn only(files: &[(&str, &[u8])]) -> Finding {
    let mut all = found(files);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn a_host_without_these_files_needs_no_advice() {
    assert_eq!(found(&[]), []);
}

#[test]
fn cpus_with_a_slow_governor_are_named_together() {
    let governor = |cpu: u32| format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor");
    let finding = only(&[
        (&governor(0), b"powersave\n"),
        (&governor(1), b"powersave\n"),
        (&governor(2), b"performance\n"),
        (&governor(10), b"powersave\n"),
    ]);
    assert_eq!(finding.fact, "the governor of CPU 0,1,10 is powersave");
    assert_eq!(finding.severity, Severity::Distorts);
}

#[test]
fn boost_is_found_where_it_is_on() {
    let boost = format!("{CPUS}/cpufreq/boost");
    let no_turbo = format!("{CPUS}/intel_pstate/no_turbo");
    assert_eq!(found(&[(&boost, b"0\n")]), []);
    assert_eq!(found(&[(&no_turbo, b"1\n")]), []);
    assert!(only(&[(&boost, b"1\n")]).remedy.starts_with("echo 0 > "));
    assert!(only(&[(&no_turbo, b"0\n")]).remedy.starts_with("echo 1 > "));
}

#[test]
fn a_clock_that_is_a_device_is_found() {
    assert_eq!(found(&[(CLOCK, b"tsc\n")]), []);
    assert_eq!(found(&[(CLOCK, b"kvm-clock\n")]), []);
    assert_eq!(
        only(&[(CLOCK, b"hpet\n")]).fact,
        "the kernel's clock is hpet"
    );
}

#[test]
fn mitigations_at_exits_are_found_once_and_others_not() {
    let file = |name: &str| format!("{CPUS}/vulnerabilities/{name}");
    let slow = b"Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT vulnerable\n";
    assert!(
        only(&[(&file("l1tf"), slow)])
            .fact
            .starts_with("l1tf: Mitigation: ")
    );
    for text in [
        "Not affected",
        "Vulnerable: Clear CPU buffers attempted, no microcode",
    ] {
        assert_eq!(found(&[(&file("mds"), text.as_bytes())]), []);
    }
    assert_eq!(
        only(&[(&file("mds"), b"Mitigation: Clear CPU buffers")]).severity,
        Severity::Slows
    );
}

#[test]
fn a_file_that_cannot_be_read_is_said() {
    let root = tempfile::tempdir().unwrap();
    // A folder cannot be read as a file, not even by root.
    fs::create_dir_all(
        root.path()
            .join(Path::new(CLOCK).strip_prefix("/").unwrap()),
    )
    .unwrap();
    let all = find(&HostFiles::new(root.path()));
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].severity, Severity::Unknown);
    assert!(
        all[0]
            .fact
            .starts_with("cannot tell whether the kernel's clock is slow: ")
    );
}

#[test]
fn hostile_contents_reach_no_terminal() {
    let mut hostile = b"\x1b[31mred\xff\xfe".to_vec();
    hostile.extend(std::iter::repeat_n(b'x', 1 << 20));
    let fact = only(&[(CLOCK, &hostile)]).fact;
    assert!(fact.chars().count() < 300, "{}", fact.len());
    assert!(!fact.chars().any(char::is_control), "{fact:?}");
}
