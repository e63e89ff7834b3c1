//! Explores every interleaving of small cases, with at most three preemptions each. Run by
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib models --target-dir target/loom`.
//!
//! A model has no `membarrier`: both sides have a fence. The real call is at least as strong as that: it acts as a
//! fence in each thread at some moment during the call. In a reader, that moment is before the epoch's store, and then
//! the loads come after the writer's changes; or it is after the store, and then the writer sees the epoch.

use loom::{cell::UnsafeCell, model::Builder, sync::Arc, thread};

use super::{Domain, Snapshot};

pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Memory whose accesses and whose release the model checker sees.
pub(crate) struct Tracked(UnsafeCell<u32>);

// SAFETY: all access goes through the cell, where the checker fails a model that races.
#[allow(unsafe_code)]
unsafe impl Sync for Tracked {}

impl Tracked {
    pub(crate) fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[allow(unsafe_code)]
    pub(crate) fn get(&self) -> u32 {
        // SAFETY: the pointer is the cell's own; the checker fails the model if it is written to
        // meanwhile.
        self.0.with(|value| unsafe { *value })
    }

    #[allow(unsafe_code)]
    pub(crate) fn set(&self, new: u32) {
        // SAFETY: as above; the checker also fails the model if the cell is read meanwhile.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// One thread reads twice while another replaces the value and frees what it can.
#[test]
fn reader_never_holds_what_is_freed() {
    check(|| {
        let snapshot = Snapshot::new(Tracked::new(1));
        let mut reader = snapshot.reader();
        let reader = thread::spawn(move || {
            let first = reader.read().get();
            let second = reader.read().get();
            assert!((1..=2).contains(&first) && (first..=2).contains(&second));
        });
        snapshot.replace(Tracked::new(2));
        snapshot.domain().reclaim();
        reader.join().unwrap();
        assert_eq!(snapshot.domain().reclaim(), 0);
    });
}

#[test]
fn retired_by_one_thread_and_reclaimed_by_another() {
    check(|| {
        let snapshot = Arc::new(Snapshot::new(Tracked::new(1)));
        let mut reader = snapshot.reader();
        let reclaimer = Arc::clone(&snapshot);
        let reclaimer = thread::spawn(move || {
            reclaimer.domain().reclaim();
        });
        let replacer = Arc::clone(&snapshot);
        let replacer = thread::spawn(move || replacer.replace(Tracked::new(2)));
        assert!((1..=2).contains(&reader.read().get()));
        reclaimer.join().unwrap();
        replacer.join().unwrap();
    });
}

#[test]
fn synchronize_returns_after_every_section_that_may_hold_the_old() {
    check(|| {
        let domain = Domain::new();
        let shared = Arc::new((Tracked::new(1), loom::sync::atomic::AtomicBool::new(true)));
        let (mut reader, seen) = (domain.reader(), Arc::clone(&shared));
        let reader = thread::spawn(move || {
            let _section = reader.enter();
            if seen.1.load(loom::sync::atomic::Ordering::Acquire) {
                assert_eq!(seen.0.get(), 1);
            }
        });
        shared.1.store(false, loom::sync::atomic::Ordering::Release);
        domain.synchronize();
        shared.0.set(0);
        reader.join().unwrap();
    });
}

#[test]
fn a_thread_that_sleeps_between_its_sections_holds_nobody_up() {
    check(|| {
        let snapshot = Arc::new(Snapshot::new(Tracked::new(1)));
        let mut reader = snapshot.reader();
        let vcpu = thread::spawn(move || {
            assert!((1..=2).contains(&reader.read().get()));
            // From here on, the thread runs its guest forever, and still has the reader.
            reader
        });
        snapshot.replace(Tracked::new(2));
        snapshot.domain().synchronize();
        assert_eq!(snapshot.domain().reclaim(), 0);
        drop(vcpu.join().unwrap());
    });
}
