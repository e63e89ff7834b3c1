//! Linux's and QEMU's rings: `cargo vmbell-check test --features c`.
#![cfg(feature = "c")]

use std::sync::Arc;

use vmbell_check::{Explorer, Format, Model, Report, Shape, What};
use vmbell_subjects::c::{Callbacks, LINUX_POLLER, LinuxDriver};
use vmbell_subjects::poll::{explore, polls_after};
use vmbell_subjects::{Bells, Checked, Site, Work, device, driver, pair};

const CALLBACKS: [Callbacks; 4] = [
    Callbacks::Enable,
    Callbacks::PrepareAndPoll,
    Callbacks::Delayed,
    Callbacks::AlwaysOn,
];

/// The smallest rings of each kind.
fn shapes(event_idx: bool) -> impl Iterator<Item = Shape> {
    let shapes = [Shape::split(2, event_idx), Shape::packed(2, event_idx)];
    shapes
        .into_iter()
        .flat_map(|shape| [shape, shape.in_order()])
}

/// Linux's own interrupt handlers, with each way to ask for the next interrupt, and devices that give back one buffer
/// at a time or all in one batch.
#[test]
fn linux_loses_no_notification_however_it_asks_for_interrupts() {
    for (name, at_once) in [
        ("reference", false),
        ("reference", true),
        ("vmbell", false),
        ("vmbell", true),
        ("vringh", false),
    ] {
        for callbacks in CALLBACKS {
            for event_idx in [false, true] {
                for shape in shapes(event_idx) {
                    let served = device(name);
                    if !served.about.formats.contains(&shape.format) {
                        continue;
                    }
                    let report = Explorer::new()
                        .seconds(vmbell_subjects::HANG)
                        .run(|scenario| {
                            let ring = scenario.ring(shape);
                            let memory = ring.memory();
                            let layout = (ring.descriptors, ring.driver, ring.device);
                            // SAFETY: the checker keeps its memory mapped while it explores.
                            #[allow(unsafe_code)]
                            let site =
                                unsafe { Site::new(memory.pointer(), memory.len(), shape, layout) };
                            let mut linux = LinuxDriver::new(&site);
                            let bells: Arc<dyn Bells> = Arc::new(Checked::new(ring));
                            let driver_bells = Arc::clone(&bells);
                            scenario.task("driver", move || {
                                linux.run(2, 2, callbacks, &*driver_bells);
                            });
                            let Some(new) = served.new else {
                                let most = if at_once { u16::MAX } else { 1 };
                                let body = ring.reference_device_in_batches(most);
                                return scenario.background("device", body);
                            };
                            let mut side = new(&site, false);
                            if at_once {
                                side.give_back_at_once();
                            }
                            scenario.background("device", move || {
                                while bells.wait_for_kick() {
                                    side.handle(&*bells);
                                }
                            });
                        });
                    let report = report.unwrap_or_else(|error| {
                        panic!("{name}, {callbacks:?}, {shape:?}: {error}")
                    });
                    let good = report.failure().is_none() && report.is_complete();
                    assert!(good, "{name}, {callbacks:?}, {shape:?}: {report}");
                    println!("{name}, {callbacks:?}, {shape:?}:\n{report}");
                }
            }
        }
    }
}

/// Explores Linux's driver that takes one buffer before it asks if it may sleep; the device may give back two at once.
fn takes_one(shape: Shape, at_once: bool, late: bool, mended: bool) -> Report {
    let work = Work {
        budget: 1,
        at_once,
        late,
        mended,
        ..Work::new(2, 2)
    };
    let explorer = Explorer::new().seconds(vmbell_subjects::HANG);
    let report = pair(&explorer, &driver("linux"), &device("vmbell"), shape, work);
    report.expect("it can be explored")
}

#[test]
fn linux_loses_no_notification_if_it_takes_one_buffer_before_it_asks() {
    for shape in [false, true].into_iter().flat_map(shapes) {
        for (at_once, late) in [(false, false), (false, true), (true, false), (true, true)] {
            // The next test covers these rings.
            if at_once && shape.in_order && shape.format == Format::Packed {
                continue;
            }
            let report = takes_one(shape, at_once, late, false);
            report.assert_no_failure().assert_complete();
        }
    }
}

/// `virtqueue_poll_packed` and `virtqueue_enable_cb_delayed_packed` check the slot of the next buffer. The device skips
/// that slot if it gives several buffers back with one descriptor.
#[test]
fn linux_loses_the_interrupt_of_a_batch_in_order_that_it_has_taken_in_part() {
    for event_idx in [false, true] {
        for late in [false, true] {
            let shape = Shape::packed(2, event_idx).in_order();
            let report = takes_one(shape, true, late, false);
            for verdict in &report.verdicts {
                let failure = verdict.failure.as_ref().expect("an interrupt is lost");
                let tasks = vec!["driver".to_string()];
                assert_eq!(failure.what, What::Lost { tasks }, "{report}");
            }
            println!("{shape:?}, late {late}:\n{report}");
            let mended = takes_one(shape, true, late, true);
            mended.assert_no_failure().assert_complete();
        }
    }
}

/// Linux's driver with more requests than its queue has descriptors: the code around it then calls `abort`.
#[test]
fn a_driver_in_c_that_aborts_is_a_failure_with_its_place() {
    let explorer = Explorer::new();
    let report = pair(
        &explorer,
        &driver("linux"),
        &device("reference"),
        Shape::split(2, true),
        Work::new(3, 3),
    );
    let report = report.expect("it can be explored");
    for verdict in &report.verdicts {
        let failure = verdict.failure.as_ref().expect("it aborts");
        let What::Crashed {
            task, signal, site, ..
        } = &failure.what
        else {
            panic!("{report}")
        };
        assert_eq!((&**task, *signal), ("driver", "SIGABRT"), "{report}");
        assert!(site.starts_with("linux_driver_add, driver.c:"), "{report}");
        let trace = failure.trace.join("\n");
        assert!(trace.contains("driver: store avail.idx := 2"), "{report}");
        assert!(trace.contains("driver  crashes with SIGABRT"), "{report}");
    }
}

#[test]
fn libvhost_user_loses_a_kick_unless_it_asks_after_each_chain() {
    for name in ["vmbell", "linux"] {
        let (driver, shape) = (driver(name), Shape::split(2, true));
        let explore = |device: &str, model, mended| {
            let work = Work {
                mended,
                ..Work::new(2, 2)
            };
            let explorer = Explorer::new()
                .seconds(vmbell_subjects::HANG)
                .models([model]);
            let report = pair(&explorer, &driver, &self::device(device), shape, work);
            report.expect("it can be explored")
        };
        for device in ["libvhost-user", "libvhost-user, asks at the end"] {
            let report = explore(device, Model::Tso, false);
            let failure = report.failure().expect("a kick is lost");
            let tasks = vec!["driver".to_string()];
            assert_eq!(failure.what, What::Lost { tasks }, "{report}");
            let strong = explore(device, Model::Sc, false);
            strong.assert_no_failure().assert_complete();
            for model in [Model::Tso, Model::Rc11] {
                let mended = explore(device, model, true);
                mended.assert_no_failure().assert_complete();
            }
        }
        let careful = explore("libvhost-user, asks each time", Model::Tso, false);
        careful.assert_no_failure().assert_complete();
    }
}

#[test]
fn virtqueue_poll_of_a_split_ring_is_fooled_after_65536_buffers() {
    for event_idx in [false, true] {
        let shape = Shape::split(2, event_idx);
        for (count, is_told) in [(65_535, true), (65_536, false), (65_537, true)] {
            let told = polls_after(LINUX_POLLER, shape, count);
            assert_eq!(told, is_told, "{count} buffers");
        }
    }
}

#[test]
fn virtqueue_poll_of_a_packed_ring_is_fooled_within_one_lap() {
    for size in [2, 64] {
        let shape = Shape::packed(size, true);
        let lap = u32::from(size);
        let untold = (1..=3 * lap).filter(|&count| !polls_after(LINUX_POLLER, shape, count));
        assert!(untold.eq(lap + 1..=2 * lap), "size {size}");
    }
    for event_idx in [false, true] {
        let shape = Shape::packed(2, event_idx);
        let report = explore(
            &Explorer::new().seconds(vmbell_subjects::HANG),
            LINUX_POLLER,
            shape,
            0,
            3,
        );
        let report = report.expect("it can be explored");
        for verdict in &report.verdicts {
            let failure = verdict.failure.as_ref().expect("the driver is fooled");
            assert!(matches!(failure.what, What::Claim(_)), "{report}");
        }
        println!("{report}");
    }
}
