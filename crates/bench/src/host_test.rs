//! Tests of reading the host's facts.

use super::*;

#[test]
fn fields_of_cpuinfo_are_found_by_their_whole_name() {
    let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A: B\n\nmodel name\t: C\n";
    assert_eq!(field(cpuinfo, "model name").as_deref(), Some("A: B"));
    assert_eq!(field(cpuinfo, "name"), None);
}

#[test]
fn this_host_has_a_kernel_and_a_cpu() {
    let host = probe();
    assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
    assert!(host.cpus > 0);
    assert!(!host.allowed_cpus.is_empty());
}
