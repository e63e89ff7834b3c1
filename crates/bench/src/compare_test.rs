//! Tests of which row is compared with which.

use super::*;
use crate::Sample;
use vmbell_report::Group;

fn row(name: &str, ns: &[f64]) -> Row {
    let mut row = Row::new(name, Group::Scenario, None);
    for ns in ns {
        row.push(
            Sample {
                ops: 1,
                elapsed_ns: *ns,
                ..Sample::default()
            },
            crate::CpuTime::default(),
        );
    }
    row.status = Status::Ok;
    row
}

#[test]
fn each_kind_has_its_device_model() {
    for (name, model) in [
        ("portio-wildcard-eventfd", "portio-no-eventfd"),
        ("portio-datamatch-eventfd", "portio-no-eventfd"),
        ("mmio-any-length-eventfd", "mmio-no-eventfd"),
        ("hypercall-wildcard-eventfd", "hypercall-no-eventfd"),
        ("doorbell-word", "hypercall-no-eventfd"),
    ] {
        assert_eq!(device_model_of(name), Some(model), "{name}");
    }
}

#[test]
fn variants_are_compared_with_the_plain_device_model() {
    for (name, model) in [
        ("portio-wildcard-eventfd+int3", "portio-no-eventfd"),
        ("portio-wildcard-eventfd+jmp", "portio-no-eventfd"),
        ("portio-no-eventfd+spin", "portio-no-eventfd"),
        ("mmio-no-eventfd+int3+spin", "mmio-no-eventfd"),
    ] {
        assert_eq!(device_model_of(name), Some(model), "{name}");
    }
}

#[test]
fn the_device_model_is_compared_with_nothing() {
    assert_eq!(device_model_of("portio-no-eventfd"), None);
    assert_eq!(device_model_of("floor-getppid"), None);
}

#[test]
fn a_ratio_is_new_over_old() {
    let rows = [row("old", &[100.0, 101.0, 99.0]), row("new", &[25.0; 3])];
    let ratio = ratio(&rows, "new", "old", 1).unwrap();
    assert!((ratio.value - 0.25).abs() < 1e-12);
}

#[test]
fn a_row_that_was_not_measured_has_no_ratio() {
    let mut rows = [row("old", &[100.0]), row("new", &[25.0])];
    assert!(ratio(&rows, "new", "absent", 1).is_none());
    rows[0].status = Status::Failed;
    assert!(ratio(&rows, "new", "old", 1).is_none());
}
