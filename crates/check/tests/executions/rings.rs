//! The reference sides of virtqueues, and that a defect in one of them is found.

use vmbell_check::{Explorer, Load, Model, Shape, What};

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

#[test]
fn a_batch_of_an_in_order_ring_has_one_used_element() {
    for (shape, used) in [
        (Shape::split(2, false), "store used.ring[1].id"),
        (Shape::packed(2, false), "store desc[1].flags := 32896"),
    ] {
        let traces = [shape, shape.in_order()].map(|shape| {
            let report = Explorer::new().models([Model::Sc]).run(|scenario| {
                let ring = scenario.ring(shape);
                let load = Load {
                    batch: true,
                    ..Load::new(2, 2)
                };
                scenario.task("driver", ring.reference_driver(load));
                scenario.background("device", ring.reference_device_in_batches(u16::MAX));
                scenario.at_end(|| Err("a trace of an execution that is good".to_string()));
            });
            let report = report.expect("it can be explored");
            let failure = report.failure().expect("each execution ends so");
            failure.trace.join("\n")
        });
        let [each, one] = traces.map(|trace| trace.contains(used));
        assert!(each && !one, "{shape:?}");
    }
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
