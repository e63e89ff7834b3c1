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
    let slows = |file| {
        let is_slow = |value| severities(&[(file, value)]).contains(&Severity::Slows);
        [is_slow("N\n"), is_slow("Y\n")]
    };
    for file in [
        "kvm_intel/parameters/enable_apicv",
        "kvm_amd/parameters/avic",
    ] {
        assert_eq!(slows(file), [true, false], "{file}");
    }
}

#[test]
fn what_a_doorbell_of_any_length_costs_depends_on_the_vendor() {
    let fact = |file, value| {
        let found = found(&[(file, value)]);
        let of = |finding: &&Finding| finding.effect.contains("mmio-any-length-eventfd");
        let note = found.iter().find(of)?;
        assert_eq!(note.severity, Severity::Note);
        Some(note.fact.clone())
    };
    let intel = fact("kvm_intel/parameters/ept", "Y\n").unwrap();
    assert!(intel.starts_with("this CPU has Intel's VMX"), "{intel}");
    // Without EPT, an MMIO exit is a page fault, which KVM decodes.
    assert_eq!(fact("kvm_intel/parameters/ept", "N\n"), None);
    let amd = fact("kvm_amd/parameters/npt", "Y\n").unwrap();
    assert!(amd.starts_with("this CPU has AMD's SVM"), "{amd}");
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
