//! Tests of the rows of the image.

use super::super::document::BatchTicks as Ticks;
use super::*;

fn row(name: &str, ticks: &[u64]) -> DocumentRow {
    DocumentRow {
        name: name.to_owned(),
        mark: None,
        result: match ticks {
            [] => Err("there is no such device".to_owned()),
            ticks => Ok(Ticks {
                operations: 10,
                ticks: ticks.to_vec(),
            }),
        },
    }
}

#[test]
fn ticks_become_nanoseconds_of_an_operation() {
    let row = in_nanoseconds(row("cpuid", &[20_000, 40_000]), 2e9);
    let batches = row.batches.unwrap();
    assert_eq!(batches.ns, [1000.0, 2000.0]);
    assert_eq!(batches.operations, 10);
}

#[test]
fn rows_of_devices_that_were_not_asked_for_are_left_out() {
    let is_wanted = |name: &str, ticks: &[u64]| is_wanted(&row(name, ticks), &[VmmDeviceName::Rng]);
    assert!(is_wanted("virtio-rng-notify", &[]));
    assert!(!is_wanted("virtio-net-notify", &[]));
    assert!(is_wanted("virtio-net-notify", &[5]));
    assert!(is_wanted("cpuid", &[]));
    let mut left_out = row("cpuid", &[]);
    left_out.result = Err(NOT_ASKED_FOR.to_owned());
    assert!(!super::is_wanted(&left_out, &[]));
}
