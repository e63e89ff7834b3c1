//! Tests of the lines in the form of kvm-unit-tests' `vmexit`.

use super::*;
use crate::{Outcome, sample};

#[test]
fn doorbells_have_the_suffix_of_their_bar_and_others_have_none() {
    let mut report = sample::report();
    report.tsc.hz = 1e9;
    let mut rows = report.results.clone();
    rows.truncate(1);
    let row = |name: &str, address_space, ns: f64| {
        let mut row = rows[0].clone();
        row.command = name.to_owned();
        row.setting.address_space = address_space;
        sample::of(&mut row).times.median = ns;
        row
    };
    report.results = vec![
        row("mmio-wildcard-eventfd", Some(AddressSpace::Mmio), 3529.0),
        row("portio-no-eventfd", Some(AddressSpace::Pio), 5535.4),
        row("hypercall-no-eventfd", None, 1519.6),
        row("notify-portio-no-eventfd", None, 1.0),
    ];
    let expected = "\
mmio-wildcard-eventfd:pci-mem 3529
portio-no-eventfd:pci-io 5535
hypercall-no-eventfd 1520
notify-portio-no-eventfd 1
";
    assert_eq!(vmexit(&report), expected);
}

#[test]
fn rows_without_numbers_say_why() {
    let mut report = sample::report();
    let row = |name: &str, address_space, outcome| {
        let mut row = report.results[0].clone();
        row.command = name.to_owned();
        row.setting.address_space = address_space;
        row.outcome = outcome;
        row
    };
    report.results = vec![
        row(
            "mmio-no-eventfd",
            Some(AddressSpace::Mmio),
            Outcome::Skipped { reason: None },
        ),
        row("vmcall", None, Outcome::Failed { reason: None }),
    ];
    let text = vmexit(&report);
    assert_eq!(text, "mmio-no-eventfd:pci-mem (skipped)\nvmcall (failed)\n");
}

#[test]
fn names_are_told_apart_by_their_backends() {
    let text = vmexit(&sample::two_backends());
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains(&"kvm/portio-no-eventfd"), "{text}");
    assert!(names.contains(&"usermode/portio-no-eventfd"), "{text}");
    assert!(names.contains(&"floor-getppid"), "{text}");
}
