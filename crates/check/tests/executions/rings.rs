//! The reference sides of virtqueues, and that a defect in either side is found.

use vmbell_check::{
    Explorer, Failure, Load, Model, Order, Report, Shape, What, fence, spurious_wake_up,
};

fn shapes(size: u16) -> impl Iterator<Item = Shape> {
    [false, true].into_iter().flat_map(move |event_idx| {
        let split = Shape::split(size, event_idx);
        [
            split,
            split.starting_at(65_534),
            Shape::packed(size, event_idx),
        ]
    })
}

#[test]
fn the_reference_sides_lose_nothing_in_any_execution() {
    for shape in shapes(2) {
        for (requests, depth) in [(1, 1), (2, 1), (2, 2)] {
            let report = Explorer::new().run(|scenario| {
                let ring = scenario.ring(shape);
                ring.preset();
                scenario.task("driver", ring.reference_driver(Load::new(requests, depth)));
                scenario.background("device", ring.reference_device());
            });
            let report = report.expect("it can be explored");
            report.assert_no_failure().assert_complete();
        }
    }
}

/// How a reference driver takes used buffers: its budget, and whether it asks late or keeps interrupts enabled.
const WAYS: [(u16, bool, bool); 5] = [
    (1, false, false),
    (1, true, false),
    (1, false, true),
    (u16::MAX, true, false),
    (u16::MAX, false, true),
];

#[test]
fn the_reference_sides_lose_nothing_in_batches_and_in_order() {
    for shape in shapes(2).flat_map(|shape| [shape, shape.in_order()]) {
        for (budget, late, armed) in WAYS {
            for most in [1, u16::MAX] {
                let load = Load {
                    budget,
                    late,
                    armed,
                    ..Load::new(2, 2)
                };
                let report = Explorer::new().run(|scenario| {
                    let ring = scenario.ring(shape);
                    ring.preset();
                    scenario.task("driver", ring.reference_driver(load));
                    scenario.background("device", ring.reference_device_in_batches(most));
                });
                let report = report.expect("it can be explored");
                report.assert_no_failure().assert_complete();
            }
        }
    }
}

/// Returns the trace of an execution of the reference sides that loses nothing.
fn trace(shape: Shape, load: Load, most: u16) -> String {
    let report = Explorer::new().models([Model::Sc]).run(|scenario| {
        let ring = scenario.ring(shape);
        scenario.task("driver", ring.reference_driver(load));
        scenario.background("device", ring.reference_device_in_batches(most));
        scenario.at_end(|| Err("a trace of an execution that is good".to_string()));
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("each execution ends so");
    failure.trace.join("\n")
}

#[test]
fn a_batch_of_an_in_order_ring_has_one_used_element() {
    let load = Load {
        batch: true,
        ..Load::new(2, 2)
    };
    for (shape, used) in [
        (Shape::split(2, false), "store used.ring[1].id"),
        (Shape::packed(2, false), "store desc[1].flags := AVAIL|USED"),
    ] {
        let traces = [shape, shape.in_order()].map(|shape| trace(shape, load, u16::MAX));
        let [each, one] = traces.map(|trace| trace.contains(used));
        assert!(each && !one, "{shape:?}");
    }
}

#[test]
fn a_trace_shows_packed_words_by_their_fields() {
    let load = Load::new(1, 1);
    let text = trace(Shape::packed(2, true), load, 1);
    for line in [
        "driver: store desc[0].flags := WRITE|AVAIL",
        "driver: load  device_event.off_wrap = slot 0 wrap 0, device_event.flags = ENABLE",
        "driver: store driver_event.off_wrap := slot 1 wrap 1, driver_event.flags := DESC",
        "device: store device_event.off_wrap := slot 0 wrap 1, device_event.flags := DISABLE",
        "device: load  desc[0].flags = WRITE|AVAIL",
        "device: store desc[0].flags := AVAIL|USED",
        "device: load  driver_event.off_wrap = slot 0 wrap 1, driver_event.flags = DISABLE",
    ] {
        assert!(
            text.lines().any(|other| other.trim() == line),
            "{line}:\n{text}"
        );
    }
    let text = trace(Shape::packed(2, false), load, 1);
    assert!(text.contains("driver_event.flags := ENABLE"), "{text}");
}

#[test]
fn a_trace_shows_each_field_that_one_access_covers() {
    let report = Explorer::new().models([Model::Tso]).run(|scenario| {
        let ring = scenario.ring(Shape::split(1, false));
        let (memory, descriptor) = (ring.memory(), usize::from(ring.descriptors));
        scenario.name(64, 2, "one");
        scenario.name(68, 4, "other");
        scenario.task("driver", move || {
            memory.store(descriptor + 8, 8, 0x7_0003_0000_0800, Order::Relaxed);
            memory.update(descriptor + 12, 4, Order::Relaxed, |_| Some(0x8_0004));
            memory.store(64, 8, 0x9_0000_000A, Order::Relaxed);
            memory.load(66, 4, Order::Relaxed);
        });
        scenario.at_end(|| Err("a trace of an execution that is good".to_string()));
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("each execution ends so");
    let lines: Vec<&str> = failure.trace.iter().map(|line| line.trim()).collect();
    assert_eq!(
        lines[..4],
        [
            "driver: store desc[0].len := 2048, desc[0].flags := NEXT|WRITE, desc[0].next := 7",
            "driver: update desc[0].flags = NEXT|WRITE := INDIRECT, desc[0].next = 7 := 8",
            "driver: store one := 10, byte 66 := 0, other := 9",
            "driver: load  byte 66 = 0, other = 9",
        ]
    );
}

#[test]
fn a_device_that_sleeps_without_a_last_look_loses_a_notification() {
    let report = Explorer::new().models([Model::Sc]).run(|scenario| {
        let ring = scenario.ring(Shape::split(2, false));
        scenario.task("driver", ring.reference_driver(Load::new(2, 2)));
        let (memory, used, avail) = (
            ring.memory(),
            usize::from(ring.device),
            usize::from(ring.driver),
        );
        scenario.background("device", move || {
            use vmbell_check::Order::{Acquire, Relaxed, Release};
            let mut seen = 0;
            loop {
                ring.wait_for_kick();
                memory.store(used, 2, 1, Relaxed);
                while memory.load(avail + 2, 2, Acquire) != seen {
                    let id = memory.load(
                        avail + 4 + 2 * usize::try_from(seen % 2).unwrap_or(0),
                        2,
                        Relaxed,
                    );
                    memory.store(
                        used + 4 + 8 * usize::try_from(seen % 2).unwrap_or(0),
                        4,
                        id,
                        Relaxed,
                    );
                    seen += 1;
                    memory.store(used + 2, 2, seen, Release);
                    ring.interrupt();
                }
                memory.store(used, 2, 0, Relaxed);
            }
        });
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("a notification is lost");
    assert_eq!(
        failure.what,
        What::Lost {
            tasks: vec!["driver".to_string()]
        },
        "{report}"
    );
    let trace = failure.trace.join("\n");
    assert!(trace.contains("store avail.idx := 2"), "{trace}");
    assert!(
        trace.contains("driver  sleeps; it waits for interrupt"),
        "{trace}"
    );
    assert!(
        trace.contains("device  sleeps; it waits for kick or pause"),
        "{trace}"
    );
    assert_eq!(
        marked(failure),
        [
            "device: load  avail.idx = 1  <-- the notification is lost between this",
            "device: store used.flags := 0  <-- and this",
        ]
    );
}

/// The lines of a trace that are marked because the notification is lost between them.
fn marked(failure: &Failure) -> Vec<&str> {
    let lines = failure.trace.iter().map(|line| line.trim());
    lines.filter(|line| line.contains("<--")).collect()
}

/// Explores a driver that asks for an interrupt and then looks for buffers, and a device that uses a buffer and then
/// looks whether to interrupt. One of the two has no fence between its two steps.
fn lacks_a_fence(models: &[Model], driver_has: bool) -> Report {
    let report = Explorer::new()
        .models(models.iter().copied())
        .run(|scenario| {
            let memory = scenario.memory();
            scenario.name(0, 2, "armed");
            scenario.name(8, 2, "used");
            let sleeper = scenario.sleeper("driver", &["interrupt"]);
            scenario.task("driver", move || {
                memory.store(0, 2, 1, Order::Relaxed);
                if driver_has {
                    fence(Order::SeqCst);
                }
                if memory.load(8, 2, Order::Relaxed) == 0 {
                    sleeper.wait();
                }
            });
            scenario.background("device", move || {
                memory.store(8, 2, 1, Order::Relaxed);
                if !driver_has {
                    fence(Order::SeqCst);
                }
                if memory.load(0, 2, Order::Relaxed) == 1 {
                    sleeper.bell(0).signal();
                }
            });
        });
    report.expect("it can be explored")
}

#[test]
fn the_accesses_without_a_fence_between_them_are_marked() {
    for (model, arrives) in [(Model::Tso, true), (Model::Rc11, false)] {
        for (driver_has, task, store, load) in [
            (false, "driver", "armed", "used"),
            (true, "device", "used", "armed"),
        ] {
            let report = lacks_a_fence(&[model], driver_has);
            let failure = report.failure().expect("a notification is lost");
            let marked = marked(failure).into_iter();
            let marked = marked.map(|line| line.replace(" (does not see the newer store)", ""));
            let load = format!("{task}: load  {load} = 0");
            let [one, other] = if arrives {
                [
                    load,
                    format!("{task}: (the store of {store} reaches memory)"),
                ]
            } else {
                [format!("{task}: store {store} := 1"), load]
            };
            assert_eq!(
                marked.collect::<Vec<_>>(),
                [
                    format!("{one}  <-- the notification is lost between this"),
                    format!("{other}  <-- and this"),
                ],
                "{report}"
            );
        }
    }
}

#[test]
fn a_load_that_leads_to_a_signal_is_not_marked() {
    let report = Explorer::new().models([Model::Sc]).run(|scenario| {
        let memory = scenario.memory();
        memory.preset(0, &[1, 0]);
        let driver = scenario.sleeper("driver", &["interrupt"]);
        let device = scenario.sleeper("device", &["kick"]);
        scenario.task("driver", move || {
            if memory.load(0, 2, Order::Relaxed) == 1 {
                device.bell(0).signal();
            }
            memory.store(8, 2, 1, Order::Relaxed);
            driver.wait();
        });
        scenario.background("device", move || {
            device.wait();
            memory.store(0, 2, 0, Order::Relaxed);
            if memory.load(8, 2, Order::Relaxed) == 1 {
                driver.bell(0).signal();
            }
            device.wait();
        });
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("a notification is lost");
    assert_eq!(marked(failure), [""; 0], "{report}");
}

#[test]
fn a_failure_of_several_models_is_printed_once_and_names_them() {
    let text = |models: &[Model]| lacks_a_fence(models, true).to_string();
    let weak = text(&[Model::Sc, Model::Tso, Model::Rc11]);
    assert_eq!(weak.matches("driver  sleeps").count(), 1, "{weak}");
    assert!(weak.contains("    TSO and RC11 allow this:\n"), "{weak}");
    assert!(weak.contains("reaches memory"), "{weak}");
    for model in ["TSO   FAILED", "RC11  FAILED", "SC    complete"] {
        assert!(weak.contains(model), "{weak}");
    }
    // The trace is the strongest model's, in whatever order the models are explored.
    let reversed = text(&[Model::Rc11, Model::Tso]);
    assert!(reversed.contains("reaches memory"), "{reversed}");
    let one = text(&[Model::Rc11]);
    assert!(!one.contains("allow this"), "{one}");

    let never = Explorer::new().run(|scenario| {
        let (memory, sleeper) = (scenario.memory(), scenario.sleeper("driver", &["never"]));
        scenario.task("driver", move || {
            if memory.load(0, 2, Order::Relaxed) == 1 {
                sleeper.wait();
            }
        });
        scenario.task("device", move || memory.store(0, 2, 1, Order::Relaxed));
    });
    let shared = never.expect("it can be explored").to_string();
    assert_eq!(shared.matches("driver  sleeps").count(), 1, "{shared}");
    assert!(
        shared.contains("    SC, TSO and RC11 allow this:\n"),
        "{shared}"
    );
    assert!(!shared.contains("<--"), "{shared}");
}

#[test]
fn an_exploration_that_met_its_limit_is_no_proof() {
    let report = Explorer::new()
        .executions(10)
        .models([Model::Tso])
        .run(|scenario| {
            let ring = scenario.ring(Shape::split(2, true));
            scenario.task("driver", ring.reference_driver(Load::new(2, 2)));
            scenario.background("device", ring.reference_device());
        });
    let report = report.expect("it can be explored");
    assert!(!report.is_complete());
    assert!(report.to_string().contains("which is no proof"), "{report}");
}

#[test]
fn a_report_counts_spurious_wake_ups() {
    for (count, text) in [
        (0, "no notification is lost\n"),
        (1, "no notification is lost, at most 1 spurious wake-up\n"),
        (2, "no notification is lost, at most 2 spurious wake-ups\n"),
    ] {
        let report = Explorer::new().run(|scenario| {
            scenario.task("driver", move || {
                for _ in 0..count {
                    spurious_wake_up();
                }
            });
        });
        let report = report.expect("it can be explored").to_string();
        assert!(report.contains(text), "{report}");
    }
}
