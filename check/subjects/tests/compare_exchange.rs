//! Compare-exchanges in instrumented code: what a failed one sees of the other side's stores.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

use vmbell_check::{Explorer, Memory, Model, claim};

/// A field of the shared memory.
fn field(memory: Memory, at: usize) -> &'static AtomicU16 {
    let word = memory.pointer().as_ptr().wrapping_add(at).cast();
    // SAFETY: the field is in the shared memory, which is mapped while tasks run; both access it only as an atomic.
    unsafe { AtomicU16::from_ptr(word) }
}

/// Returns whether a side can miss what was stored before a flag that its failed compare-exchange sees.
fn misses_message(failure: Ordering, model: Model) -> bool {
    let report = Explorer::new().models([model]).run(|scenario| {
        let memory = scenario.memory();
        scenario.task("driver", move || {
            field(memory, 8).store(1, Relaxed);
            field(memory, 0).store(1, Release);
        });
        scenario.task("device", move || {
            let result = field(memory, 0).compare_exchange(7, 2, AcqRel, failure);
            let message = field(memory, 8).load(Relaxed);
            claim(result != Err(1) || message == 1, || {
                "the message is missed".to_string()
            });
        });
    });
    let report = report.expect("it can be explored");
    assert!(report.failure().is_some() || report.is_complete());
    report.failure().is_some()
}

#[test]
fn a_compare_exchange_that_fails_acquires_only_if_its_order_on_failure_does() {
    assert!(misses_message(Relaxed, Model::Rc11));
    assert!(!misses_message(Acquire, Model::Rc11));
    for model in [Model::Sc, Model::Tso] {
        assert!(!misses_message(Relaxed, model));
    }
}
