use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn guard_keeps_the_value_that_it_found() {
    let snapshot = Snapshot::new(String::from("old"));
    let (mut one, mut two) = (snapshot.reader(), snapshot.reader());
    let old = one.read();
    snapshot.replace(String::from("new"));
    assert_eq!((old.as_str(), two.read().as_str()), ("old", "new"));
    drop(old);
    assert_eq!(one.read().as_str(), "new");
}

#[test]
fn reader_outlives_the_snapshot() {
    let snapshot = Snapshot::new(5);
    let mut reader = snapshot.reader();
    drop(snapshot);
    assert_eq!(*reader.read(), 5);
}

#[test]
fn readers_see_whole_values_under_a_writer_at_full_speed() {
    let snapshot = Snapshot::new(vec![0_u64; 16]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = snapshot.reader();
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let value = reader.read();
                    assert!(value.iter().all(|word| *word == value[0]));
                }
            });
        }
        for round in 0..if cfg!(miri) { 50 } else { 20_000 } {
            snapshot.replace(vec![round; 16]);
            snapshot.domain().reclaim();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(snapshot.domain().reclaim(), 0);
}

#[test]
fn reader_keeps_a_value_until_its_guard_is_gone() {
    let snapshot = Snapshot::new(1);
    let mut reader = snapshot.reader();
    let value = reader.read();
    snapshot.replace(2);
    assert_eq!(snapshot.domain().reclaim(), 1);
    assert_eq!(*value, 1);
    drop(value);
    assert_eq!(snapshot.domain().reclaim(), 0);
    assert_eq!(*reader.read(), 2);
}

#[test]
fn debug_output_shows_the_epochs() {
    let snapshot = Snapshot::new(1);
    assert_eq!(
        format!("{snapshot:?}"),
        "Snapshot { domain: Domain { epoch: 1, .. }, .. }"
    );
    assert_eq!(
        format!("{:?}", snapshot.reader()),
        "SnapshotReader { reader: Reader { noted: 0, .. }, .. }"
    );
}

#[test]
fn last_value_is_dropped_with_the_last_handle() {
    let value = std::sync::Arc::new(());
    let snapshot = Snapshot::new(std::sync::Arc::clone(&value));
    let reader = snapshot.reader();
    drop(snapshot);
    assert_eq!(std::sync::Arc::strong_count(&value), 2);
    drop(reader);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}

#[test]
fn replaced_value_is_dropped_by_the_first_reclaim_behind_its_readers() {
    let value = std::sync::Arc::new(());
    let snapshot = Snapshot::new(Some(std::sync::Arc::clone(&value)));
    let mut reader = snapshot.reader();
    let guard = reader.read();
    snapshot.replace(None);
    assert_eq!(snapshot.domain().reclaim(), 1);
    assert_eq!(std::sync::Arc::strong_count(&value), 2);
    drop(guard);
    assert_eq!(snapshot.domain().reclaim(), 0);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}
