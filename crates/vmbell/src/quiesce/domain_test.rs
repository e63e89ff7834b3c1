use std::{
    sync::atomic::{AtomicBool, AtomicUsize},
    time::Duration,
};

use super::*;

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn garbage() -> (Dropped, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    (Dropped(Arc::clone(&drops)), drops)
}

#[test]
fn garbage_without_readers_is_dropped_by_the_next_reclaim() {
    let (garbage, drops) = garbage();
    let domain = Domain::new();
    domain.retire(garbage);
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    assert_eq!((domain.reclaim(), drops.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn garbage_outlives_the_section_that_may_hold_it() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    let (garbage, drops) = garbage();
    let section = reader.enter();
    domain.retire(garbage);
    assert_eq!((domain.reclaim(), drops.load(Ordering::Relaxed)), (1, 0));
    drop(section);
    assert_eq!((domain.reclaim(), drops.load(Ordering::Relaxed)), (0, 1));
}

#[test]
fn synchronize_waits_for_sections_of_other_threads() {
    let domain = Domain::new();
    let over = AtomicBool::new(false);
    let mut reader = domain.reader();
    let section = reader.enter();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            domain.synchronize();
            assert!(over.load(Ordering::Relaxed));
        });
        std::thread::sleep(Duration::from_millis(20));
        over.store(true, Ordering::Relaxed);
        drop(section);
    });
}

#[test]
fn what_is_dropped_may_retire_more() {
    struct Nested(Domain);
    impl Drop for Nested {
        fn drop(&mut self) {
            self.0.retire(());
        }
    }
    let domain = Domain::new();
    domain.retire(Nested(domain.clone()));
    assert_eq!(domain.reclaim(), 0);
    assert_eq!(domain.reclaim(), 0);
}

#[test]
fn reader_that_goes_leaves_nothing_to_look_at() {
    let domain = Domain::new();
    let kept = domain.reader();
    for _ in 0..3 {
        drop(domain.reader());
    }
    assert_eq!(domain.shared.slots.lock().len(), 1);
    drop(kept);
    assert_eq!(domain.shared.slots.lock().len(), 0);
}

#[test]
fn a_reader_between_its_sections_and_one_that_is_gone_hold_nobody_up() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    drop(reader.enter());
    let mut gone = domain.reader();
    drop(gone.enter());
    drop(gone);
    domain.retire(());
    assert_eq!(domain.reclaim(), 0);
    domain.synchronize();
}

#[test]
fn a_wait_for_a_section_that_does_not_end_gives_up_and_keeps_the_garbage() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    let (garbage, drops) = garbage();
    let section = reader.enter();
    domain.retire(garbage);
    assert!(!domain.synchronize_within(Duration::from_millis(1)));
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(section);
    assert!(domain.synchronize_within(Duration::from_secs(60)));
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn a_wait_does_not_wait_for_sections_that_begin_after_it() {
    let domain = Domain::new();
    let done = AtomicBool::new(false);
    let mut readers = [domain.reader(), domain.reader()];
    std::thread::scope(|scope| {
        // At any moment, one of the readers is in a section.
        for reader in &mut readers {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _section = reader.enter();
                }
            });
        }
        for _ in 0..if cfg!(miri) { 2 } else { 100 } {
            domain.synchronize();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn slowest_of_several_readers_decides() {
    let domain = Domain::new();
    let (mut slow, mut fast) = (domain.reader(), domain.reader());
    let slow = slow.enter();
    domain.retire(());
    let fast = fast.enter();
    domain.retire(());
    assert_eq!(domain.reclaim(), 2);
    drop(slow);
    assert_eq!(domain.reclaim(), 1, "the fast one holds the second");
    drop(fast);
    assert_eq!(domain.reclaim(), 0);
}

#[test]
fn reader_that_goes_does_not_take_another_with_it() {
    let domain = Domain::new();
    let (mut first, gone, mut last) = (domain.reader(), domain.reader(), domain.reader());
    let section = first.enter();
    drop(gone);
    domain.retire(());
    assert_eq!(domain.reclaim(), 1, "the first is still waited for");
    let lasts = last.enter();
    drop(section);
    domain.retire(());
    assert_eq!(domain.reclaim(), 1, "and so is the last");
    drop(lasts);
}

#[test]
fn debug_output_shows_the_epochs() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    assert_eq!(format!("{reader:?}"), "Reader { noted: 0, .. }");
    domain.retire(());
    let section = reader.enter();
    assert_eq!(
        format!("{section:?}"),
        "Section { reader: Reader { noted: 2, .. } }"
    );
    assert_eq!(format!("{domain:?}"), "Domain { epoch: 2, .. }");
}

#[test]
#[cfg(not(miri))]
fn this_kernel_orders_the_accesses_of_readers() {
    assert!(!Domain::new().readers_have_fences(), "Linux 4.14");
}
