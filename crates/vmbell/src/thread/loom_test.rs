//! A callback that is called while other threads remove it. To run it, see the models of `quiesce`.

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::*;

const LIMIT: Duration = Duration::from_secs(1);

/// What a callback owns: the model fails if it is dropped while the callback uses it, or after a removal has returned.
struct Owned(Arc<AtomicU32>);

const ALIVE: u32 = 0;
const IN_USE: u32 = 1;
const DROPPED: u32 = 2;

impl Owned {
    fn use_it(&self) {
        assert_eq!(self.0.swap(IN_USE, Ordering::Relaxed), ALIVE);
        assert_eq!(self.0.swap(ALIVE, Ordering::Relaxed), IN_USE);
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        assert_eq!(self.0.swap(DROPPED, Ordering::Relaxed), ALIVE);
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Callbacks with one callback, number 1, which uses what it owns.
fn one(more: bool) -> (Arc<Callbacks<()>>, Arc<AtomicU32>) {
    let callbacks = Arc::new(Callbacks::new());
    let state = Arc::new(AtomicU32::new(ALIVE));
    let owned = Owned(Arc::clone(&state));
    let callback = move || {
        owned.use_it();
        more
    };
    let added = callbacks.add((), Box::new(callback), |&(), _| Ok::<_, ()>(()));
    assert_eq!(added, Ok(1));
    (callbacks, state)
}

#[test]
fn a_removed_callback_neither_runs_nor_exists_once_the_removal_returns() {
    check(|| {
        let (callbacks, state) = one(true);
        let caller = {
            let callbacks = Arc::clone(&callbacks);
            thread::spawn(move || {
                let first = callbacks.call(1);
                let second = callbacks.call(1);
                assert!(first || !second, "it came back");
            })
        };
        callbacks.remove(1, |()| {});
        assert!(callbacks.await_return(1, LIMIT));
        assert_eq!(state.load(Ordering::Relaxed), DROPPED);
        caller.join().unwrap();
        assert!(!callbacks.call(1));
    });
}

#[test]
fn two_threads_that_remove_one_callback_both_find_it_gone() {
    check(|| {
        let (callbacks, state) = one(false);
        let remove = |callbacks: Arc<Callbacks<()>>, state: Arc<AtomicU32>| {
            move || {
                callbacks.remove(1, |()| {});
                assert!(callbacks.await_return(1, LIMIT));
                // If the callback did not run, the other thread may still have to drop it.
                state.load(Ordering::Relaxed)
            }
        };
        let other = thread::spawn(remove(Arc::clone(&callbacks), Arc::clone(&state)));
        callbacks.call(1);
        let mine = remove(Arc::clone(&callbacks), Arc::clone(&state))();
        let others = other.join().unwrap();
        assert!(mine == DROPPED || others == DROPPED);
        assert_eq!(state.load(Ordering::Relaxed), DROPPED);
    });
}

#[test]
fn a_callback_that_is_added_meanwhile_is_called_with_its_own_number() {
    check(|| {
        let (callbacks, _) = one(false);
        let adder = {
            let callbacks = Arc::clone(&callbacks);
            thread::spawn(move || {
                let added = callbacks.add((), Box::new(|| true), |&(), _| Ok::<_, ()>(()));
                assert_eq!(added, Ok(2));
            })
        };
        callbacks.call(2);
        assert!(!callbacks.call(1));
        adder.join().unwrap();
        assert!(callbacks.call(2));
    });
}
