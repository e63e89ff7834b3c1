//! Tests of the sentences.

use super::*;
use crate::sample;

/// A report with these rows: backend, name and median.
fn report(rows: &[(&str, &str, f64)]) -> Report {
    let mut report = sample::report();
    let of = |(name, backend, ns): &(&str, &str, f64)| sample::of_vmm(backend, name, *ns);
    report.results = rows.iter().map(of).collect();
    report
}

#[test]
fn a_doorbell_is_compared_with_the_exit_of_its_own_backend() {
    let report = report(&[
        ("portio-wildcard-eventfd", "kvm", 1000.0),
        ("portio-wildcard-eventfd", "usermode", 3000.0),
        ("portio-no-eventfd", "kvm", 2000.0),
        ("portio-no-eventfd", "usermode", 12_000.0),
    ]);
    assert_eq!(
        answer(&report, "kvm"),
        ["A doorbell (ioeventfd) costs 1.00 µs, 2.0x cheaper than an exit to the VMM (2.00 µs)."]
    );
    assert_eq!(
        answer(&report, "usermode"),
        ["A doorbell (ioeventfd) costs 3.00 µs, 4.0x cheaper than an exit to the VMM (12.0 µs)."]
    );
}

#[test]
fn a_row_that_was_not_measured_is_left_out() {
    let mut report = report(&[("irqfd-edge-to-halted", "kvm", 9000.0)]);
    let halted = "An interrupt (irqfd) reaches a halted vCPU in 9.00 µs.";
    assert_eq!(answer(&report, "kvm"), [halted]);
    assert!(answer(&report, "usermode").is_empty());
    report.results[0].outcome = crate::Outcome::Skipped { reason: None };
    assert!(answer(&report, "kvm").is_empty());
}

#[test]
fn instructions_are_named_and_emulated_times_have_no_sentence() {
    let mut report = report(&[("irqfd-edge-to-halted", "kvm", 9000.0)]);
    report.timing = Timing::Instructions;
    let halted = "An interrupt (irqfd) reaches a halted vCPU in 9000 instructions.";
    assert_eq!(answer(&report, "kvm"), [halted]);
    report.timing = Timing::Emulated;
    assert!(answer(&report, "kvm").is_empty());
}

#[test]
fn a_backend_that_emulates_kernel_mode_has_no_sentence() {
    let mut report = report(&[("irqfd-edge-to-halted", "usermode", 9000.0)]);
    report.backends[0].emulates_kernel_mode = true;
    assert!(answer(&report, "usermode").is_empty());
}

#[test]
fn a_time_that_the_clock_cannot_tell_from_none_is_a_bound() {
    let mut report = report(&[("eoi-pv", "kvm", 0.5), ("eoi-x2apic", "kvm", 2640.0)]);
    sample::of(&mut report.results[0]).times.resolution = Some(1.0);
    assert_eq!(
        answer(&report, "kvm"),
        [
            "PV EOI ends an interrupt in less than 1.00 ns, more than 2640x cheaper than the EOI register \
             (2.64 µs)."
        ]
    );
}

#[test]
fn what_costs_more_is_slower_and_what_costs_the_same_costs_as_much() {
    let rows = |new| {
        [
            ("virtqueue-roundtrip-ioeventfd-irqfd", "kvm", new),
            ("virtqueue-roundtrip-device-model", "kvm", 10_000.0),
        ]
    };
    let says = |new, text: &str| {
        let [sentence] = &answer(&report(&rows(new)), "kvm")[..] else {
            panic!("one sentence")
        };
        assert!(sentence.contains(text), "{sentence}");
    };
    says(
        13_400.0,
        "in 13.4 µs, 34 % slower than by exits to the VMM (10.0 µs).",
    );
    says(
        10_010.0,
        "in 10.0 µs, as much as by exits to the VMM (10.0 µs).",
    );
}

#[test]
fn a_difference_that_may_be_chance_is_not_clear() {
    let mut report = report(&[("eoi-pv", "kvm", 900.0), ("eoi-x2apic", "kvm", 1000.0)]);
    for (new, ends, says) in [
        (
            900.0,
            [0.8, 1.2],
            ", not clearly less than the EOI register",
        ),
        (
            1100.0,
            [0.9, 1.4],
            ", not clearly more than the EOI register",
        ),
        (900.0, [0.8, 0.95], ", 10 % cheaper than the EOI register"),
    ] {
        let row = sample::of(&mut report.results[0]);
        row.times.median = new;
        row.ratio = Some(Ratio {
            reference: "eoi-x2apic".to_owned(),
            value: new / 1000.0,
            ci_low: Some(ends[0]),
            ci_high: Some(ends[1]),
            is_bound: false,
        });
        let [sentence] = &answer(&report, "kvm")[..] else {
            panic!("one sentence")
        };
        assert!(sentence.contains(says), "{sentence}");
    }
}
