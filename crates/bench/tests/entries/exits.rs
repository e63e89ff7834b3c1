//! The exits of an operation are those that its row is about.

use std::sync::Arc;

use vmbell_bench::scenario::ScanValues;
use vmbell_bench::{RunSample, SampleSeries};
use vmbell_hypervisor::Hypervisor;
use vmbell_usermode::Usermode;

use crate::measure;

/// More than the rows of registrations take.
const OPS: u64 = 120;
const MOST_REGISTRATIONS: u64 = 100;

/// Measures one run of each of these rows.
fn measured(names: &[&str]) -> Vec<SampleSeries> {
    let usermode: Arc<dyn Hypervisor> = Arc::new(Usermode);
    let entries = measure::named(&usermode, &ScanValues::default(), names);
    // In the warm-up, the guest sets its devices up.
    let series = measure::measured(&entries, &[0, 1], [1, OPS], kit::wait::HANG).series;
    assert_eq!(series.len(), names.len());
    series
}

/// The only sample of a row.
fn sample(series: &SampleSeries) -> &RunSample {
    let [sample] = series.samples.as_slice() else {
        panic!("{}: {:?}", series.name, series.reason);
    };
    sample
}

#[test]
fn an_operation_exits_to_where_its_row_says() {
    // How many exits of an operation the backend answers by itself, and how many go to the VMM.
    const EXITS: [(&str, u64, u64); 16] = [
        ("portio-no-eventfd", 0, 1),
        ("portio-no-eventfd+spin", 0, 1),
        ("portio-wildcard-eventfd+int3", 1, 0),
        ("portio-datamatch-eventfd", 1, 0),
        ("portio-datamatch-eventfd+jmp", 1, 0),
        ("portio-payload-eventfd", 1, 0),
        ("portio-any-length-eventfd", 1, 0),
        ("mmio-no-eventfd", 0, 1),
        ("mmio-payload-eventfd", 1, 0),
        ("hypercall-no-eventfd", 0, 1),
        ("hypercall-payload-eventfd", 1, 0),
        ("doorbell-word", 0, 0),
        ("notify-hypercall-wildcard-eventfd", 1, 0),
        ("notify-doorbell-word", 0, 0),
        ("virtqueue-roundtrip-device-model", 0, 1),
        ("virtqueue-roundtrip-polled", 0, 0),
    ];
    for series in measured(&EXITS.map(|(name, ..)| name)) {
        let (name, sample) = (&*series.name, sample(&series));
        let (_, light, heavy) = EXITS.into_iter().find(|(row, ..)| *row == name).unwrap();
        let exits = (sample.ops, sample.light, sample.heavy);
        assert_eq!(exits, (OPS, Some(OPS * light), OPS * heavy), "{name}");
    }
}

#[test]
fn an_interrupt_exits_at_least_where_its_row_says() {
    // What the host does meanwhile adds exits.
    const LEAST: [(&str, u64, u64); 4] = [
        ("self-ipi", 1, 0),
        ("ipi", 2, 0),
        ("irqfd-level-to-running", 1, 0),
        ("level-userspace-unmask", 1, 1),
    ];
    for series in measured(&LEAST.map(|(name, ..)| name)) {
        let (name, sample) = (&*series.name, sample(&series));
        let (_, light, heavy) = LEAST.into_iter().find(|(row, ..)| *row == name).unwrap();
        assert_eq!(sample.ops, OPS, "{name}");
        assert!(sample.light >= Some(OPS * light), "{name}: {sample:?}");
        assert!(sample.heavy >= OPS * heavy, "{name}: {sample:?}");
    }
}

#[test]
fn each_registration_of_a_run_is_timed_and_none_is_an_exit_to_the_vmm() {
    for series in measured(&["ioeventfd-assign", "ioeventfd-deassign"]) {
        let (name, sample) = (&series.name, sample(&series));
        let timed = series.latencies.as_ref().map(|timed| timed.len());
        let registrations = (sample.ops, timed);
        assert_eq!(
            registrations,
            (MOST_REGISTRATIONS, Some(MOST_REGISTRATIONS)),
            "{name}"
        );
        // The guest rings another doorbell meanwhile.
        assert_eq!(sample.heavy, 0, "{name}");
    }
}
