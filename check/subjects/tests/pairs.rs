//! Each driver with each device, with fixes where a subject needs them, loses no notification.

use vmbell_check::{Explorer, Format, Model, Shape};
use vmbell_subjects::{Device, Driver, Work, devices, drivers, pair};

/// The pairs that support a format, with the shapes of their rings.
fn pairs(format: Format) -> Vec<(Driver, Device, [Shape; 2])> {
    let mut pairs = Vec::new();
    for driver in drivers() {
        for device in devices() {
            if !device.serves(&driver, format) {
                continue;
            }
            let shapes = [false, true].map(|event_idx| driver.smallest_ring(format, event_idx));
            pairs.push((driver, device, shapes));
        }
    }
    pairs
}

fn lose_nothing(model: Model, format: Format, skip: impl Fn(&Driver, &Device) -> bool) {
    let explorer = Explorer::new()
        .models([model])
        .seconds(vmbell_subjects::HANG);
    let pairs = pairs(format);
    assert!(pairs.len() > 5, "most subjects support the format");
    for (driver, device, shapes) in pairs {
        if skip(&driver, &device) {
            continue;
        }
        for shape in shapes {
            // arcbox accesses words byte by byte, which makes many more executions.
            let requests = if device.about.name == "arcbox-virtio-core" {
                1
            } else {
                2
            };
            let work = Work {
                mended: true,
                ..Work::new(requests, 2)
            };
            let report = pair(&explorer, &driver, &device, shape, work);
            let report = report.unwrap_or_else(|error| panic!("{driver:?}, {device:?}: {error}"));
            let (one, two) = (driver.about.name, device.about.name);
            let good = report.failure().is_none() && report.is_complete();
            assert!(good, "{one} with {two}, {shape:?}:\n{report}");
        }
    }
}

#[test]
fn no_split_pair_loses_a_notification_under_sequential_consistency() {
    lose_nothing(Model::Sc, Format::Split, |_, _| false);
}

#[test]
fn no_packed_pair_loses_a_notification_under_sequential_consistency() {
    lose_nothing(Model::Sc, Format::Packed, |_, _| false);
}

#[test]
fn no_split_pair_loses_a_notification_under_tso() {
    lose_nothing(Model::Tso, Format::Split, |_, _| false);
}

#[test]
fn no_packed_pair_loses_a_notification_under_tso() {
    lose_nothing(Model::Tso, Format::Packed, |_, _| false);
}

#[test]
fn no_split_pair_loses_a_notification_under_rc11() {
    lose_nothing(Model::Rc11, Format::Split, |_, _| false);
}

/// The exception is in `findings`: virtio-driver sees that alioth does not release the buffers that it gives back.
#[test]
fn no_packed_pair_loses_a_notification_under_rc11() {
    lose_nothing(Model::Rc11, Format::Packed, |driver, device| {
        (driver.about.name, device.about.name) == ("virtio-driver", "alioth")
    });
}
