//! Tests of what is read from the host.

use super::*;

#[test]
fn fields_of_cpuinfo_are_found_by_their_whole_name() {
    let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A: B\n\nmodel name\t: C\n";
    assert_eq!(field(cpuinfo, "model name").as_deref(), Some("A: B"));
    assert_eq!(field(cpuinfo, "name"), None);
}

#[test]
fn this_host_has_a_kernel_and_a_cpu() {
    let host = Host::probe();
    assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
    assert!(host.cpus > 0);
    assert!(!host.allowed_cpus.is_empty());
}

#[test]
fn open_vulnerabilities_are_told_from_mitigated_ones() {
    let host = Host {
        mitigations: [
            ("spectre_v2", "Mitigation: Retpolines"),
            ("mds", "Vulnerable: no microcode"),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into(),
        ..Host::default()
    };
    assert_eq!(host.mitigated(true), ["spectre_v2"]);
    assert_eq!(host.mitigated(false), ["mds"]);
}
