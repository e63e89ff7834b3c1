use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use super::*;

#[test]
fn a_lock_goes_on_after_a_panic_of_its_holder() {
    let (lock, shared) = (Mutex::new(1), RwLock::new(1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let (mut value, mut other) = (lock.lock(), shared.write());
        (*value, *other) = (2, 2);
        panic!("with both locks");
    }));
    assert!(panicked.is_err());
    assert_eq!((*lock.lock(), *shared.read()), (2, 2));
    assert_eq!(lock.try_lock().map(|value| *value), Some(2));
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn a_lock_of_a_type_is_one_of_a_trait_object() {
    let lock: Arc<Mutex<dyn FnMut() -> u8 + Send>> = Arc::new(Mutex::new(|| 1));
    let shared: Arc<RwLock<dyn Fn() -> u8 + Send + Sync>> = Arc::new(RwLock::new(|| 2));
    assert_eq!((lock.lock()(), shared.read()()), (1, 2));
}

#[test]
fn a_lock_that_is_held_is_not_taken_by_a_try() {
    let lock = Mutex::new(());
    let held = lock.lock();
    assert!(lock.try_lock().is_none());
    drop(held);
    assert!(lock.try_lock().is_some());
}

#[test]
fn a_wait_ends_with_its_condition_also_after_a_panic() {
    let both = Arc::new((Mutex::new(false), Condvar::new()));
    let waiter = {
        let both = Arc::clone(&both);
        thread::spawn(move || *both.1.wait_while(both.0.lock(), |is_set| !*is_set))
    };
    let setter = Arc::clone(&both);
    let panicked = thread::spawn(move || {
        let mut is_set = setter.0.lock();
        *is_set = true;
        setter.1.notify_all();
        panic!("with the lock");
    });
    assert!(panicked.join().is_err());
    assert!(waiter.join().unwrap());
}
