//! Locks whose words are explored, and the data that they guard, which is not explored.

use std::cell::Cell;
use std::rc::Rc;

use vmbell_check::Order::{Acquire, Relaxed, Release};
use vmbell_check::{Explorer, Memory, Report, What, claim};

fn lock(memory: Memory) {
    while memory.compare_exchange(0, 8, [Acquire, Relaxed], 0, 1) != 0 {
        while memory.load(0, 8, Relaxed) != 0 {}
    }
}

fn unlock(memory: Memory) {
    memory.store(0, 8, 0, Release);
}

/// Three tasks that each add once to a number under a lock; `forgets` never unlocks.
fn add(forgets: Option<u32>) -> Report {
    let report = Explorer::new().with_guarded_data().run(|scenario| {
        let (memory, number) = (scenario.memory(), Rc::new(Cell::new(0)));
        for task in 0..3 {
            let number = Rc::clone(&number);
            scenario.task(&format!("task {task}"), move || {
                lock(memory);
                // An explored word has the number from before this addition.
                let before = memory.load(8, 8, Relaxed);
                claim(before == number.get(), || "a number is lost".to_string());
                number.set(before + 1);
                memory.store(8, 8, before + 1, Relaxed);
                if forgets != Some(task) {
                    unlock(memory);
                }
            });
        }
        scenario.at_end(move || match number.get() {
            3 => Ok(()),
            number => Err(format!("the number is {number}")),
        });
    });
    report.expect("it can be explored")
}

#[test]
fn data_behind_a_lock_is_as_its_last_holder_left_it() {
    let report = add(None);
    report.assert_complete().assert_no_failure();
    for verdict in &report.verdicts {
        assert_eq!(verdict.executions(), 6, "each order of three tasks once");
    }
}

#[test]
fn a_lock_that_is_not_given_back_is_found() {
    for verdict in &add(Some(1)).verdicts {
        let failure = verdict.failure.as_ref().expect("two tasks wait for ever");
        assert!(matches!(failure.what, What::Lost { .. }), "{failure}");
        let text = failure.to_string();
        assert!(text.contains("waits for the lock"), "{text}");
    }
}

#[test]
fn data_without_a_lock_is_another_in_each_run() {
    let report = Explorer::new().with_guarded_data().run(|scenario| {
        let (memory, number) = (scenario.memory(), Rc::new(Cell::new(0)));
        for task in 0..2 {
            let number = Rc::clone(&number);
            scenario.task(&format!("task {task}"), move || {
                memory.store(8, 8, 1, Relaxed);
                number.set(number.get() + 1);
                memory.store(16, 8, number.get(), Relaxed);
            });
        }
        scenario.task("reader", move || {
            memory.load(8, 8, Relaxed);
            memory.load(16, 8, Relaxed);
        });
    });
    let error = report.expect_err("no access orders them").to_string();
    assert!(error.contains("differs between two runs"), "{error}");
}
