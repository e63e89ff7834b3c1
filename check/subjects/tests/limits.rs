//! Under the checker no time passes, so waits of vmbell's locks have no time limit.
#![cfg(vmbell_check)]

use std::sync::Arc;
use std::time::Duration;

use vmbell::sync::{Condvar, Mutex};
use vmbell_check::{Explorer, claim};
use vmbell_subjects::threads::with_words;

/// The waiter polls. If the setter never runs, the checker ends the execution with an error. With a time limit the wait
/// would sometimes end by itself.
#[test]
fn a_wait_with_a_limit_is_refused_like_one_without() {
    let explorer = Explorer::new().seconds(vmbell_subjects::HANG).pages(2);
    let report = explorer.with_guarded_data().run(|scenario| {
        let both = with_words(scenario.memory(), || {
            Arc::new((Mutex::new(false), Condvar::new()))
        });
        let (setter, waiter) = (Arc::clone(&both), Arc::clone(&both));
        scenario.task("setter", move || {
            *setter.0.lock() = true;
            setter.1.notify_all();
        });
        scenario.task("waiter", move || {
            let (lock, condition) = &*waiter;
            let is_set = condition.wait_timeout_while(lock.lock(), Duration::ZERO, |set| !*set);
            claim(*is_set, || "the wait ended at its limit".to_owned());
        });
        // The lock is dropped here, so that no task is its last owner.
        scenario.at_end(move || {
            drop(both);
            Ok(())
        });
    });
    let error = report.expect_err("a task polls").to_string();
    assert!(error.contains("a task must return or wait"), "{error}");
}
