//! Tests of the sentences.

use super::*;
use crate::{CpuTime, Sample};
use vmbell_report::Group;

fn series(name: &str, backend: &'static str, ns: f64) -> Series {
    let mut series = Series::new(name, Group::Scenario, None);
    series.backend = backend;
    let sample = Sample {
        ops: 1,
        elapsed_ns: ns,
        ..Sample::default()
    };
    series.push(sample, CpuTime::default());
    series
}

fn options(timing: Timing) -> Options {
    Options {
        cpus: vec![0],
        spin: vmbell_hypervisor::SpinPolicy::Sleep,
        clock: crate::Clock::with_frequency(2e9, true),
        limit: crate::Limit::none(),
        timing,
    }
}

fn backends(names: &[&str]) -> Vec<Backend> {
    let backend = |name: &&str| Backend {
        name: (*name).to_owned(),
        ..Backend::default()
    };
    names.iter().map(backend).collect()
}

#[test]
fn a_doorbell_is_put_against_the_exit_of_its_own_backend() {
    let all = [
        series("portio-wildcard-eventfd", "kvm", 1000.0),
        series("portio-wildcard-eventfd", "usermode", 3000.0),
        series("portio-no-eventfd", "kvm", 2000.0),
        series("portio-no-eventfd", "usermode", 12_000.0),
    ];
    let text = verdict(
        &all,
        &backends(&["kvm", "usermode"]),
        &options(Timing::Native),
    );
    assert_eq!(
        text,
        [
            "kvm: a doorbell costs 1.00 µs, 0.50 of an exit to the VMM (2.00 µs) here",
            "usermode: a doorbell costs 3.00 µs, 0.25 of an exit to the VMM (12.0 µs) here",
        ]
    );
}

#[test]
fn what_was_not_measured_is_not_spoken_of() {
    let all = [series("irqfd-edge-to-halted", "kvm", 9000.0)];
    let text = verdict(&all, &backends(&["kvm"]), &options(Timing::Native));
    assert_eq!(
        text,
        ["an interrupt reaches a guest that sleeps in 9.00 µs"]
    );
    assert!(verdict(&all, &backends(&["usermode"]), &options(Timing::Native)).is_empty());
}

#[test]
fn emulated_times_give_no_verdict_and_instructions_are_named() {
    let all = [series("irqfd-edge-to-halted", "kvm", 9000.0)];
    assert!(verdict(&all, &backends(&["kvm"]), &options(Timing::Emulated)).is_empty());
    let text = verdict(&all, &backends(&["kvm"]), &options(Timing::Instructions));
    assert_eq!(
        text,
        ["an interrupt reaches a guest that sleeps in 9000 instructions"]
    );
}

#[test]
fn a_time_that_the_clock_cannot_tell_from_none_is_a_bound() {
    let mut pv = series("eoi-pv", "kvm", 0.5);
    pv.remarks.resolution = Some(2);
    let all = [pv, series("eoi-x2apic", "kvm", 2640.0)];
    let text = verdict(&all, &backends(&["kvm"]), &options(Timing::Native));
    assert_eq!(
        text,
        [
            "the end of an interrupt by PV EOI costs less than 1.00 ns, less than 1/2640 of the register \
             (2.64 µs)"
        ]
    );
}

#[test]
fn a_backend_that_emulates_kernel_mode_is_said_to() {
    let all = [series("irqfd-edge-to-halted", "kvm", 9000.0)];
    let mut kvm = backends(&["kvm"]);
    kvm[0].emulates_kernel_mode = true;
    let text = verdict(&all, &kvm, &options(Timing::Native));
    assert!(
        text[0].starts_with("kvm, which emulates the guest's kernel mode: an interrupt"),
        "{text:?}"
    );
}
