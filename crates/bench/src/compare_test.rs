//! Tests of which row is compared with which.

use super::*;
use crate::RunSample;
use vmbell_report::Group;

fn series(name: &str, ns: &[f64]) -> SampleSeries {
    let mut series = SampleSeries::new(name, Group::Scenario, None);
    for ns in ns {
        series.push(
            RunSample {
                ops: 1,
                elapsed_ns: *ns,
                ..RunSample::default()
            },
            crate::CpuTime::default(),
        );
    }
    series.status = Status::Ok;
    series
}

#[test]
fn a_ratio_is_new_over_old() {
    let all = [
        series("old", &[100.0, 101.0, 99.0]),
        series("new", &[25.0; 3]),
    ];
    let ratio = ratio(&all, &all[1], "old", 1).unwrap();
    assert!((ratio.value - 0.25).abs() < 1e-12);
}

#[test]
fn a_row_that_was_not_measured_has_no_ratio() {
    let all = [series("old", &[100.0]), series("new", &[25.0])];
    assert!(ratio(&all, &all[1], "absent", 1).is_none());
    for failed in [0, 1] {
        let mut all = all.clone();
        all[failed].status = Status::Failed;
        assert!(ratio(&all, &all[1], "old", 1).is_none(), "{failed}");
    }
}

#[test]
fn ratios_are_to_the_device_model_if_every_reference_is_one() {
    let to = |reference| SampleSeries::new("x", Group::Scenario, reference);
    let models = [
        to(None),
        to(Some("mmio-no-eventfd")),
        to(Some("notify-portio-no-eventfd")),
    ];
    assert_eq!(references(&models), "device model");
    assert_eq!(references(&[to(Some("eoi-x2apic"))]), "reference");
}
