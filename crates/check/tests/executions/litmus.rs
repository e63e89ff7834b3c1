//! Litmus tests from the literature: under which models the outcome in question can happen.

use std::cell::RefCell;
use std::rc::Rc;

use vmbell_check::Order::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use vmbell_check::{Explorer, Memory, Model, Order, fence};

const X: usize = 0;
const Y: usize = 8;

/// One step of a thread.
#[derive(Clone, Copy)]
enum Step {
    Load(usize, Order),
    Store(usize, u64, Order),
    /// Replaces an expected value by another, with the first order, or loads an unexpected one, with the second.
    Compare(usize, [u64; 2], [Order; 2]),
    Fence(Order),
}
use Step::{Compare, Fence, Load, Store};

fn run(memory: Memory, steps: &[Step]) -> Vec<u64> {
    let mut read = Vec::new();
    for &step in steps {
        match step {
            Load(place, order) => read.push(memory.load(place, 8, order)),
            Store(place, value, order) => memory.store(place, 8, value, order),
            Compare(place, [expected, new], orders) => {
                read.push(memory.compare_exchange(place, 8, orders, expected, new));
            }
            Fence(order) => fence(order),
        }
    }
    read
}

/// Returns the models under which the loads of all threads, in order, can read these values.
fn allowed(threads: &[&[Step]], outcome: &[u64]) -> Vec<Model> {
    let found = Rc::new(RefCell::new(Vec::new()));
    for model in [Model::Sc, Model::Tso, Model::Rc11] {
        let report = Explorer::new().models([model]).run(|scenario| {
            let read = Rc::new(RefCell::new(vec![Vec::new(); threads.len()]));
            for (thread, steps) in threads.iter().enumerate() {
                let (memory, steps, read) = (scenario.memory(), steps.to_vec(), read.clone());
                scenario.task(&format!("thread {thread}"), move || {
                    let values = run(memory, &steps);
                    read.borrow_mut()[thread] = values;
                });
            }
            let (found, outcome) = (found.clone(), outcome.to_vec());
            scenario.at_end(move || {
                if read.borrow().concat() == outcome && !found.borrow().contains(&model) {
                    found.borrow_mut().push(model);
                }
                Ok(())
            });
        });
        report.expect("it can be explored").assert_complete();
    }
    found.take()
}

/// Two threads that each write one place and read the other.
fn store_buffering(order: [Order; 2], fences: bool) -> Vec<Model> {
    let thread = |write, read| {
        let mut steps = vec![Store(write, 1, order[0])];
        if fences {
            steps.push(Fence(SeqCst));
        }
        steps.push(Load(read, order[1]));
        steps
    };
    allowed(&[&thread(X, Y), &thread(Y, X)], &[0, 0])
}

#[test]
fn store_buffering_needs_fences_or_sequentially_consistent_accesses() {
    assert_eq!(
        store_buffering([Relaxed, Relaxed], false),
        [Model::Tso, Model::Rc11]
    );
    assert_eq!(
        store_buffering([Release, Acquire], false),
        [Model::Tso, Model::Rc11]
    );
    assert_eq!(store_buffering([SeqCst, SeqCst], false), []);
    assert_eq!(store_buffering([Relaxed, Relaxed], true), []);
}

#[test]
fn message_passing_needs_release_and_acquire() {
    let outcome = [1, 0];
    let passing = |store, load| {
        allowed(
            &[
                &[Store(X, 1, Relaxed), Store(Y, 1, store)],
                &[Load(Y, load), Load(X, Relaxed)],
            ],
            &outcome,
        )
    };
    assert_eq!(passing(Relaxed, Relaxed), [Model::Rc11]);
    assert_eq!(passing(Release, Relaxed), [Model::Rc11]);
    assert_eq!(passing(Relaxed, Acquire), [Model::Rc11]);
    assert_eq!(passing(Release, Acquire), []);
    let fenced = allowed(
        &[
            &[Store(X, 1, Relaxed), Fence(Release), Store(Y, 1, Relaxed)],
            &[Load(Y, Relaxed), Fence(Acquire), Load(X, Relaxed)],
        ],
        &outcome,
    );
    assert_eq!(fenced, []);
}

#[test]
fn load_buffering_does_not_happen_in_these_models() {
    let thread = |read, write| [Load(read, Relaxed), Store(write, 1, Relaxed)];
    assert_eq!(allowed(&[&thread(X, Y), &thread(Y, X)], &[1, 1]), []);
}

#[test]
fn independent_readers_disagree_unless_fences_or_accesses_are_sequentially_consistent() {
    let readers = |write, read, fenced: bool| {
        let reader = |first, second| {
            let mut steps = vec![Load(first, read)];
            if fenced {
                steps.push(Fence(SeqCst));
            }
            steps.push(Load(second, read));
            steps
        };
        allowed(
            &[
                &[Store(X, 1, write)],
                &[Store(Y, 1, write)],
                &reader(X, Y),
                &reader(Y, X),
            ],
            &[1, 0, 1, 0],
        )
    };
    assert_eq!(readers(Relaxed, Acquire, false), [Model::Rc11]);
    assert_eq!(readers(Release, Acquire, false), [Model::Rc11]);
    assert_eq!(readers(Relaxed, Relaxed, true), []);
    assert_eq!(readers(SeqCst, SeqCst, false), []);
}

/// `2+2W`: each thread's last load shows that its second store came first.
#[test]
fn two_writers_of_two_places_are_ordered_by_fences() {
    let writers = |order, fenced: bool| {
        let thread = |first, second| {
            let mut steps = vec![Store(first, 1, order)];
            if fenced {
                steps.push(Fence(SeqCst));
            }
            steps.extend([Store(second, 2, order), Load(second, Relaxed)]);
            steps
        };
        allowed(&[&thread(X, Y), &thread(Y, X)], &[1, 1])
    };
    assert_eq!(writers(Relaxed, false), [Model::Rc11]);
    assert_eq!(writers(Release, false), [Model::Rc11]);
    assert_eq!(writers(Relaxed, true), []);
}

/// `R`: the first thread's load shows that the second thread's store to `Y` came last.
#[test]
fn a_store_after_a_store_and_a_load_after_a_store_need_fences() {
    let test = |fenced: bool| {
        let mut one = vec![Store(X, 1, Relaxed)];
        let mut two = vec![Store(Y, 2, Relaxed)];
        if fenced {
            one.push(Fence(SeqCst));
            two.push(Fence(SeqCst));
        }
        one.extend([Store(Y, 1, Relaxed), Load(Y, Relaxed)]);
        two.push(Load(X, Relaxed));
        allowed(&[&one, &two], &[2, 0])
    };
    assert_eq!(test(false), [Model::Tso, Model::Rc11]);
    assert_eq!(test(true), []);
}

/// `S`: the second thread's last load shows that the first thread's store to `X` came last.
#[test]
fn a_store_after_a_load_needs_release_and_acquire() {
    let test = |store, load| {
        allowed(
            &[
                &[Store(X, 2, Relaxed), Store(Y, 1, store)],
                &[Load(Y, load), Store(X, 1, Relaxed), Load(X, Relaxed)],
            ],
            &[1, 2],
        )
    };
    assert_eq!(test(Relaxed, Relaxed), [Model::Rc11]);
    assert_eq!(test(Release, Acquire), []);
}

const LOADS: [Order; 3] = [Relaxed, Acquire, SeqCst];
const UPDATES: [Order; 5] = [Relaxed, Acquire, Release, AcqRel, SeqCst];

/// The C11 standard's table of compare-exchange orders (7.17.7.4), tested by message passing: for each success and
/// failure order, whether the second thread can see the flag and miss the message.
#[test]
fn a_compare_exchange_acquires_with_the_order_of_its_result() {
    let passing = |receive: Step| {
        allowed(
            &[
                &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
                &[receive, Load(X, Relaxed)],
            ],
            &[1, 0],
        )
    };
    for success in UPDATES {
        for failure in LOADS {
            let orders = [success, failure];
            let misses = |acquires: bool| match acquires {
                true => vec![],
                false => vec![Model::Rc11],
            };
            let replaced = passing(Compare(Y, [1, 2], orders));
            let acquires = matches!(success, Acquire | AcqRel | SeqCst);
            assert_eq!(replaced, misses(acquires), "succeeds: {orders:?}");
            let loaded = passing(Compare(Y, [7, 2], orders));
            assert_eq!(loaded, misses(failure != Relaxed), "fails: {orders:?}");
        }
    }
}

/// Only a compare-exchange that succeeds writes, and it releases with its success order.
#[test]
fn a_compare_exchange_releases_with_its_order_on_success() {
    for success in UPDATES {
        let orders = [success, Relaxed];
        let passed = allowed(
            &[
                &[Store(X, 1, Relaxed), Compare(Y, [0, 1], orders)],
                &[Load(Y, Acquire), Load(X, Relaxed)],
            ],
            &[0, 1, 0],
        );
        let releases = matches!(success, Release | AcqRel | SeqCst);
        let expected: &[Model] = if releases { &[] } else { &[Model::Rc11] };
        assert_eq!(passed, expected, "{success:?}");
    }
}

/// Store buffering with a failed compare-exchange as the load. Under RC11 it loads with the failure order; on x86 it is
/// a locked instruction, which drains the store buffer.
#[test]
fn a_compare_exchange_that_fails_orders_as_a_load_and_on_x86_as_a_fence() {
    for success in UPDATES {
        for failure in LOADS {
            let thread = |write, read| {
                [
                    Store(write, 1, SeqCst),
                    Compare(read, [7, 2], [success, failure]),
                ]
            };
            let found = allowed(&[&thread(X, Y), &thread(Y, X)], &[0, 0]);
            let as_load = store_buffering([SeqCst, failure], false);
            let of = |models: &[Model]| models.contains(&Model::Rc11);
            assert_eq!(of(&found), of(&as_load), "{success:?}, {failure:?}");
            assert_eq!(of(&found), failure != SeqCst, "{success:?}, {failure:?}");
            assert!(!found.contains(&Model::Tso) && !found.contains(&Model::Sc));
        }
    }
}

/// Store buffering with a successful compare-exchange as the store.
#[test]
fn a_compare_exchange_that_succeeds_orders_as_a_store_and_on_x86_as_a_fence() {
    for success in UPDATES {
        let thread = |write, read| {
            [
                Compare(write, [0, 1], [success, Relaxed]),
                Load(read, SeqCst),
            ]
        };
        let found = allowed(&[&thread(X, Y), &thread(Y, X)], &[0, 0, 0, 0]);
        let expected: &[Model] = if success == SeqCst {
            &[]
        } else {
            &[Model::Rc11]
        };
        assert_eq!(found, expected, "{success:?}");
    }
}

/// Of two compare-exchanges that expect the same value, one succeeds.
#[test]
fn one_compare_exchange_of_two_succeeds() {
    let one = [Compare(X, [0, 1], [Relaxed, Relaxed])];
    let two = [Compare(X, [0, 2], [Relaxed, Relaxed])];
    let all = [Model::Sc, Model::Tso, Model::Rc11];
    assert_eq!(allowed(&[&one, &two], &[0, 0]), []);
    assert_eq!(allowed(&[&one, &two], &[0, 1]), all);
    assert_eq!(allowed(&[&one, &two], &[2, 0]), all);
}
