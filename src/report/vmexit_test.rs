//! Both directions, with lines in the form that kvm-unit-tests has them.

use super::*;
use crate::report::sample;

fn whole(name: &str, cycles: Option<u64>) -> VmexitRow {
    VmexitRow {
        name: name.to_owned(),
        part: None,
        cycles,
    }
}

#[test]
fn doorbells_have_the_suffix_of_their_bar_and_others_have_none() {
    let mut report = sample::report();
    report.tsc.hz = 1e9;
    let mut rows = report.results.clone();
    rows.truncate(1);
    let row = |name: &str, ns: f64| Outcome {
        command: name.to_owned(),
        median: Some(ns / 1e9),
        ..rows[0].clone()
    };
    let floor = Outcome {
        group: Group::Floor,
        ..row("mmio-like-floor", 7.0)
    };
    report.results = vec![
        row("mmio-wildcard-eventfd", 3529.0),
        row("portio-no-eventfd", 5535.4),
        row("hypercall-no-eventfd", 1519.6),
        row("notify-portio-no-eventfd", 1.0),
        floor,
    ];
    let expected = "\
mmio-wildcard-eventfd:pci-mem 3529
portio-no-eventfd:pci-io 5535
hypercall-no-eventfd 1520
notify-portio-no-eventfd 1
mmio-like-floor 7
";
    assert_eq!(vmexit(&report), expected);
}

#[test]
fn rows_without_numbers_say_why() {
    let mut report = sample::report();
    let row = |name: &str, status| Outcome {
        command: name.to_owned(),
        median: None,
        status,
        ..report.results[0].clone()
    };
    report.results = vec![
        row("mmio-no-eventfd", Status::Skipped),
        row("vmcall", Status::Failed),
    ];
    let text = vmexit(&report);
    assert_eq!(text, "mmio-no-eventfd:pci-mem (skipped)\nvmcall (failed)\n");
}

#[test]
fn rows_of_vmexit_are_read_and_the_rest_is_passed_over() {
    let output = "\
enabling apic
smp: waiting for 0 APs
paging enabled
cr0 = 80010011
cr4 = 60
pci-testdev at 0x10 membar febff000 iobar c000
cpuid 2703
PM timer port is 608
self_ipi_sti_nop 9070
  ipi self_ipi_sti_nop 3812
  eoi self_ipi_sti_nop 3256
ipi (skipped)
mmio-no-eventfd:pci-mem 7061
portio-wildcard-eventfd:pci-io 1332
";
    let part = |part: &str, cycles| VmexitRow {
        part: Some(part.to_owned()),
        ..whole("self_ipi_sti_nop", Some(cycles))
    };
    let expected = [
        whole("cpuid", Some(2703)),
        whole("self_ipi_sti_nop", Some(9070)),
        part("ipi", 3812),
        part("eoi", 3256),
        whole("ipi", None),
        whole("mmio-no-eventfd:pci-mem", Some(7061)),
        whole("portio-wildcard-eventfd:pci-io", Some(1332)),
    ];
    assert_eq!(parse_vmexit(output), expected);
}

#[test]
fn what_we_write_is_what_we_read() {
    let report = sample::report();
    let rows = parse_vmexit(&vmexit(&report));
    let measured: Vec<&Outcome> = report.results.iter().filter(|row| row.is_ok()).collect();
    let numbers: Vec<&VmexitRow> = rows.iter().filter(|row| row.cycles.is_some()).collect();
    assert_eq!(numbers.len(), measured.len());
    for (row, outcome) in numbers.iter().zip(measured) {
        assert!(row.name.starts_with(&outcome.command), "{}", row.name);
    }
}

#[test]
fn nonsense_is_no_row() {
    for line in [
        "",
        "a",
        "a b",
        "a -1",
        "a 1.5",
        "a 1 2",
        "  xyz a 1",
        "a (failed)",
    ] {
        assert_eq!(parse_vmexit(line), [], "{line}");
    }
}
