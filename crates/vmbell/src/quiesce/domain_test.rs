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
fn busy_reader_holds_garbage_until_its_next_section() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    reader.busy();
    drop(reader.enter());
    let (garbage, drops) = garbage();
    domain.retire(garbage);
    assert_eq!((domain.reclaim(), drops.load(Ordering::Relaxed)), (1, 0));
    let section = reader.enter();
    assert_eq!((domain.reclaim(), drops.load(Ordering::Relaxed)), (0, 1));
    drop(section);
}

#[test]
fn idle_and_dropped_readers_hold_nobody_up() {
    let domain = Domain::new();
    let mut idle = domain.reader();
    idle.busy();
    idle.idle();
    let mut dropped = domain.reader();
    dropped.busy();
    drop(dropped);
    domain.synchronize();
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
fn idle_reader_that_quiesces_stays_idle() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    reader.quiesce();
    domain.retire(());
    assert_eq!(domain.reclaim(), 0);
}

#[test]
fn busy_reader_that_quiesces_gives_up_what_it_held() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    reader.busy();
    domain.retire(());
    reader.busy();
    assert_eq!(domain.reclaim(), 1, "it was busy already");
    reader.quiesce();
    assert_eq!(domain.reclaim(), 0);
    domain.retire(());
    assert_eq!(domain.reclaim(), 1, "it is busy still");
}

#[test]
fn reader_that_goes_leaves_nothing_to_look_at() {
    let domain = Domain::new();
    let kept = domain.reader();
    for _ in 0..3 {
        drop(domain.reader());
    }
    assert_eq!(lock(&domain.shared.slots).len(), 1);
    drop(kept);
    assert_eq!(lock(&domain.shared.slots).len(), 0);
}

#[test]
fn reader_that_goes_does_not_take_a_busy_one_with_it() {
    let domain = Domain::new();
    let (mut first, gone, mut last) = (domain.reader(), domain.reader(), domain.reader());
    first.busy();
    drop(gone);
    domain.retire(());
    assert_eq!(domain.reclaim(), 1, "the first is still waited for");
    last.busy();
    drop(first);
    domain.retire(());
    assert_eq!(domain.reclaim(), 1, "and so is the last");
}

#[test]
fn slowest_of_several_readers_decides() {
    let domain = Domain::new();
    let (mut slow, mut fast) = (domain.reader(), domain.reader());
    slow.busy();
    domain.retire(());
    fast.busy();
    domain.retire(());
    assert_eq!(domain.reclaim(), 2);
    slow.quiesce();
    assert_eq!(domain.reclaim(), 1, "the fast one holds the second");
    fast.idle();
    assert_eq!(domain.reclaim(), 0);
}

#[test]
fn debug_output_shows_the_epochs() {
    let domain = Domain::new();
    let mut reader = domain.reader();
    assert_eq!(format!("{reader:?}"), "Reader { noted: 0, .. }");
    domain.retire(());
    reader.busy();
    assert_eq!(format!("{domain:?}"), "Domain { epoch: 2, .. }");
    assert_eq!(format!("{reader:?}"), "Reader { noted: 2, .. }");
}
