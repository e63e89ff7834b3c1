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
        let runs_through = |time| {
            // SAFETY: the tasks share only the ring.
            let witness = unsafe {
                Explorer::new().native(time, |scenario| {
                    let ring = scenario.ring(shape);
                    scenario.task("driver", ring.reference_driver(Load::new(1000, 4)));
                    scenario.background("device", ring.reference_device());
                })
            };
            let witness = witness.expect("it runs");
            assert_eq!(witness.hung, None, "{witness}");
            witness.rounds > 0
        };
        // A busy host may need longer for one round.
        let mut times = (0..10).map(|turn| Duration::from_millis(100 << turn));
        assert!(times.any(runs_through));
    }
}

#[test]
fn a_round_that_is_cut_off_has_not_run_through() {
    // SAFETY: the tasks share only the sleepers.
    let witness = unsafe {
        Explorer::new().native(Duration::from_millis(100), |scenario| {
            let ends = [("one", "other"), ("other", "one")];
            let sleepers = ends.map(|(name, other)| scenario.sleeper(name, &[other]));
            let [one, other] = sleepers;
            scenario.task("one", move || {
                loop {
                    other.bell(0).signal();
                    one.wait();
                }
            });
            scenario.background("other", move || {
                loop {
                    other.wait();
                    one.bell(0).signal();
                }
            });
        })
    };
    let witness = witness.expect("it runs");
    assert_eq!((witness.rounds, witness.hung), (0, None));
}

#[test]
fn tasks_that_all_sleep_are_hung() {
    // SAFETY: the tasks share only the sleepers.
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
