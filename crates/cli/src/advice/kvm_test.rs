use std::fs;

use super::*;

fn found(files: &[(&str, &str)]) -> Vec<Finding> {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join("sys/module").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    find(&HostFiles::new(root.path()), None)
}

fn severities(files: &[(&str, &str)]) -> Vec<Severity> {
    found(files)
        .iter()
        .map(|finding| finding.severity)
        .collect()
}

#[test]
fn a_host_without_kvm_needs_no_advice_about_it() {
    assert_eq!(found(&[]), []);
}

#[test]
fn a_kvm_that_emulates_the_kernel_mode_distorts() {
    assert_eq!(
        severities(&[("kvm_pvm/initstate", "live")]),
        [Severity::Distorts]
    );
}

#[test]
fn interrupts_by_exits_are_found() {
    for file in [
        "kvm_intel/parameters/enable_apicv",
        "kvm_amd/parameters/avic",
    ] {
        assert_eq!(severities(&[(file, "N\n")]), [Severity::Slows], "{file}");
        assert_eq!(severities(&[(file, "Y\n")]), [], "{file}");
    }
}

#[test]
fn halt_polling_is_a_matter_of_choice_and_its_absence_is_slow() {
    let file = "kvm/parameters/halt_poll_ns";
    assert_eq!(severities(&[(file, "0\n")]), [Severity::Slows]);
    let found = found(&[(file, "200000\n")]);
    assert_eq!(found[0].severity, Severity::Note);
    assert!(found[0].fact.contains("200000 ns"), "{found:?}");
}

#[test]
fn a_host_that_is_a_guest_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let found = find(&HostFiles::new(root.path()), Some("KVM"));
    assert_eq!(found[0].fact, "this host is itself a guest, under KVM");
}
