//! Tasks whose accesses reach the checker like those of instrumented code.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use vmbell_check::{Explorer, Model, Order, claim};

unsafe extern "C" {
    fn __tsan_atomic16_load(address: *const u16, order: i32) -> u16;
    fn __tsan_atomic16_compare_exchange_val(
        address: *mut u16,
        expected: u16,
        value: u16,
        success: i32,
        failure: i32,
    ) -> u16;
}

/// Declares hooks of compare-exchanges that return whether they succeed.
macro_rules! compare {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name(address: *mut u16, expected: *mut u16, value: u16, success: i32, failure: i32) -> bool;)*
        }
    };
}

compare!(__tsan_atomic16_compare_exchange_weak __tsan_atomic16_compare_exchange_strong);

const RELAXED: i32 = 0;
const ACQUIRE: i32 = 2;
const RELEASE: i32 = 3;
const ACQ_REL: i32 = 4;

type Hook = unsafe extern "C" fn(*mut u16, *mut u16, u16, i32, i32) -> bool;

/// Explores a task that calls a hook at one place until it succeeds. Returns its number of failures in each execution.
fn failures(hook: Hook, limit: usize) -> Vec<usize> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let report = Explorer::new().models([Model::Sc]).run(|scenario| {
        let word: *mut u16 = scenario.memory().pointer().as_ptr().cast();
        let failed = Rc::new(Cell::new(0));
        let counter = Rc::clone(&failed);
        scenario.task("driver", move || {
            let mut expected = 0;
            // SAFETY: the word is in the shared memory, which is mapped while the task runs, and `expected` is a local
            // variable.
            while unsafe { !hook(word, &raw mut expected, 1, ACQ_REL, RELAXED) } {
                assert_eq!(expected, 0, "no other task writes");
                counter.set(counter.get() + 1);
                assert!(counter.get() <= limit);
            }
        });
        let found = Rc::clone(&found);
        scenario.at_end(move || {
            found.borrow_mut().push(failed.get());
            Ok(())
        });
    });
    let report = report.expect("it can be explored");
    report.assert_no_failure().assert_complete();
    let mut found = found.take();
    found.sort_unstable();
    found
}

#[test]
fn a_weak_compare_exchange_fails_for_no_reason_once_and_a_strong_one_never() {
    assert_eq!(failures(__tsan_atomic16_compare_exchange_weak, 1), [0, 1]);
    assert_eq!(failures(__tsan_atomic16_compare_exchange_strong, 0), [0]);
}

/// Returns whether a task can miss the message if it sees the flag by a failed compare-exchange of instrumented code.
fn misses_message(failure: i32, hook: impl Fn(*mut u16, i32) -> u16 + Clone + 'static) -> bool {
    let report = Explorer::new().models([Model::Rc11]).run(|scenario| {
        let memory = scenario.memory();
        scenario.task("driver", move || {
            memory.store(8, 2, 1, Order::Relaxed);
            memory.store(0, 2, 1, Order::Release);
        });
        let hook = hook.clone();
        scenario.task("device", move || {
            let flag = hook(memory.pointer().as_ptr().cast(), failure);
            let message = memory.load(8, 2, Order::Relaxed);
            claim(flag != 1 || message == 1, || {
                "the message is missed".to_string()
            });
        });
    });
    let report = report.expect("it can be explored");
    report.failure().is_some()
}

#[test]
fn the_hooks_of_a_compare_exchange_pass_its_order_on_failure_on() {
    let through = |hook: Hook, success| {
        move |word: *mut u16, failure| {
            let mut old = 7;
            // SAFETY: the word is in the shared memory, which is mapped while the task runs, and `old` a local.
            unsafe { hook(word, &raw mut old, 2, success, failure) };
            old
        }
    };
    let value = |word: *mut u16, failure| {
        // SAFETY: as above.
        unsafe { __tsan_atomic16_compare_exchange_val(word, 7, 2, ACQ_REL, failure) }
    };
    let strong = __tsan_atomic16_compare_exchange_strong;
    let weak = __tsan_atomic16_compare_exchange_weak;
    for (failure, misses) in [(RELAXED, true), (ACQUIRE, false)] {
        assert_eq!(misses_message(failure, value), misses);
        assert_eq!(misses_message(failure, through(strong, ACQ_REL)), misses);
        assert_eq!(misses_message(failure, through(weak, ACQ_REL)), misses);
        assert_eq!(misses_message(failure, through(strong, RELEASE)), misses);
    }
}

#[test]
fn instrumented_code_that_polls_for_ever_does_not_keep_an_exploration_from_ending() {
    let report = Explorer::new()
        .run(|scenario| {
            let word: *const u16 = scenario.memory().pointer().as_ptr().cast();
            scenario.background("poller", move || {
                // SAFETY: the word is in the shared memory, which is mapped while the task runs.
                while unsafe { __tsan_atomic16_load(word, 0) } == 0 {}
            });
        })
        .expect("it can be explored");
    report.assert_no_failure().assert_complete();
    assert_eq!(report.verdicts[0].model, Model::Sc);
}
