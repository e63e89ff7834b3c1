//! Scenarios on real threads.
#![allow(unsafe_code)]

use std::time::Duration;

use vmbell_check::{Explorer, Load, Shape};

#[test]
fn the_reference_sides_run_natively() {
    for shape in [
        Shape::split(4, false),
        Shape::split(4, true),
        Shape::packed(4, false),
        Shape::packed(4, true),
    ] {
        // SAFETY: the tasks share the ring only.
        let witness = unsafe {
            Explorer::new().native(Duration::from_millis(200), |scenario| {
                let ring = scenario.ring(shape);
                scenario.task("driver", ring.reference_driver(Load::new(1000, 4)));
                scenario.background("device", ring.reference_device());
            })
        };
        let witness = witness.expect("it runs");
        assert_eq!(witness.hung, None, "{witness}");
        assert!(witness.rounds > 0, "{witness}");
    }
}

#[test]
fn tasks_that_all_sleep_are_hung() {
    // SAFETY: the tasks share the sleepers only.
    let witness = unsafe {
        Explorer::new().native(Duration::from_secs(600), |scenario| {
            let driver = scenario.sleeper("driver", &["interrupt"]);
            let device = scenario.sleeper("device", &["kick"]);
            scenario.task("driver", move || {
                device.bell(0).signal();
                driver.wait();
                driver.wait();
            });
            scenario.background("device", move || {
                loop {
                    device.wait();
                    driver.bell(0).signal();
                }
            });
        })
    };
    let witness = witness.expect("it runs");
    assert_eq!(witness.hung, Some(vec!["driver".to_string()]), "{witness}");
}
