//! Changes of the table against lookups, in every interleaving with at most three preemptions.
//! Run by `RUSTFLAGS="--cfg loom" cargo test --release --lib models --target-dir target/loom`.

use std::convert::Infallible;

use loom::{sync::Arc, thread};
use vmbell_core::table::Kind;

use super::{testing::Doorbells, *};
use crate::{
    doorbell::Sharing::Group,
    quiesce::{
        Domain,
        models::{Tracked, check},
    },
};

/// Two addresses that share a bucket of the checker's small table.
const ONE: u64 = 1;
const TWO: u64 = 3;

fn pattern(value: Option<u64>) -> Pattern {
    Pattern { len: 4, value }
}

fn add(doorbells: &mut Doorbells<'_>, signal: u32, address: u64, value: Option<u64>) {
    let (event, address) = (
        EventId::from_raw(u64::from(signal)),
        IoEventAddress::Mmio(address),
    );
    doorbells
        .register(event, address, pattern(value), Group, || {
            Ok::<_, Infallible>(signal)
        })
        .unwrap();
}

fn remove(
    doorbells: &mut Doorbells<'_>,
    domain: &Domain,
    signal: u32,
    address: u64,
    value: Option<u64>,
) {
    let (event, address) = (
        EventId::from_raw(u64::from(signal)),
        IoEventAddress::Mmio(address),
    );
    let Doorbells { table, writer } = doorbells;
    let removal = writer
        .unlink(table, event, address, pattern(value))
        .unwrap();
    domain.synchronize();
    assert_eq!(writer.finish(removal), signal);
}

fn signals(table: &Table, address: u64) -> Vec<u32> {
    let mut signals: Vec<u32> = table.lookup(Kind::Mmio, address, 4, 5).iter().collect();
    signals.sort_unstable();
    signals
}

/// Looks [`ONE`] up on another thread, while `change` changes the doorbells that `setup` has registered.
fn race(
    setup: fn(&mut Doorbells<'_>),
    change: fn(&mut Doorbells<'_>, &Domain),
    outcomes: &'static [&'static [u32]],
) {
    check(move || {
        let (table, domain) = (Arc::new(Table::boxed()), Domain::new());
        let mut doorbells = Doorbells::new(&table, 4);
        setup(&mut doorbells);
        let (mut reader, seen) = (domain.reader(), Arc::clone(&table));
        let reader = thread::spawn(move || {
            let _section = reader.enter();
            signals(&seen, ONE)
        });
        change(&mut doorbells, &domain);
        let found = reader.join().unwrap();
        assert!(outcomes.contains(&&found[..]), "{found:?}");
    });
}

#[test]
fn registration_is_seen_whole_or_not_at_all() {
    race(|_| {}, |d, _| add(d, 1, ONE, None), &[&[], &[1]]);
    race(|_| {}, |d, _| add(d, 1, ONE, Some(5)), &[&[], &[1]]);
}

#[test]
fn value_joins_a_wildcard() {
    race(
        |d| add(d, 1, ONE, None),
        |d, _| add(d, 2, ONE, Some(5)),
        &[&[1], &[1, 2]],
    );
}

#[test]
fn wildcard_joins_a_value() {
    race(
        |d| add(d, 1, ONE, Some(5)),
        |d, _| add(d, 2, ONE, None),
        &[&[1], &[1, 2]],
    );
}

#[test]
fn item_leaves_a_group() {
    race(
        |d| (1..=3).for_each(|signal| add(d, signal, ONE, None)),
        |d, domain| remove(d, domain, 2, ONE, None),
        &[&[1, 2, 3], &[1, 3]],
    );
}

#[test]
fn value_leaves_a_wildcard() {
    race(
        |d| {
            add(d, 1, ONE, None);
            add(d, 2, ONE, Some(5));
        },
        |d, domain| remove(d, domain, 2, ONE, Some(5)),
        &[&[1, 2], &[1]],
    );
}

#[test]
fn slot_that_is_used_again_never_answers_for_the_old_address() {
    race(
        |d| add(d, 1, ONE, None),
        |d, domain| {
            remove(d, domain, 1, ONE, None);
            add(d, 2, TWO, None);
        },
        &[&[1], &[]],
    );
}

#[test]
fn value_slot_that_is_used_again_never_answers_for_the_old_value() {
    race(
        |d| add(d, 1, ONE, Some(5)),
        |d, domain| {
            remove(d, domain, 1, ONE, Some(5));
            add(d, 2, ONE, Some(6));
        },
        &[&[1], &[]],
    );
}

/// Looks `value` up at `address` on another thread. Meanwhile a doorbell at [`ONE`] with the value `old` is removed,
/// and a doorbell at `address` with `value` is registered before the removal's grace period.
fn registered_before_the_grace_period(old: Option<u64>, address: u64, value: Option<u64>) {
    check(move || {
        let (table, domain) = (Arc::new(Table::boxed()), Domain::new());
        let mut doorbells = Doorbells::new(&table, 4);
        add(&mut doorbells, 1, ONE, old);
        let (mut reader, seen) = (domain.reader(), Arc::clone(&table));
        let reader = thread::spawn(move || {
            let _section = reader.enter();
            let value = value.unwrap_or_default();
            let found: Vec<u32> = seen.lookup(Kind::Mmio, address, 4, value).iter().collect();
            found
        });
        let event = EventId::from_raw(1);
        let removal = doorbells
            .writer
            .unlink(&table, event, IoEventAddress::Mmio(ONE), pattern(old))
            .unwrap();
        add(&mut doorbells, 2, address, value);
        domain.synchronize();
        assert_eq!(doorbells.writer.finish(removal), 1);
        let found = reader.join().unwrap();
        assert!(found.is_empty() || found == [2], "{found:?}");
    });
}

#[test]
fn slot_of_a_removal_without_its_grace_period_answers_for_no_other_address() {
    registered_before_the_grace_period(None, TWO, None);
}

#[test]
fn value_slot_of_a_removal_without_its_grace_period_answers_for_no_other_value() {
    registered_before_the_grace_period(Some(5), ONE, Some(6));
}

#[test]
fn signal_number_is_free_when_removal_returns() {
    check(|| {
        let (table, domain) = (Arc::new(Table::boxed()), Domain::new());
        let mut doorbells = Doorbells::new(&table, 4);
        add(&mut doorbells, 1, ONE, None);
        let eventfd = Arc::new(Tracked::new(0));
        let (mut reader, seen, rung) = (domain.reader(), Arc::clone(&table), Arc::clone(&eventfd));
        let reader = thread::spawn(move || {
            let _section = reader.enter();
            let hit = !signals(&seen, ONE).is_empty();
            if hit {
                rung.set(1);
            }
            u32::from(!hit)
        });
        remove(&mut doorbells, &domain, 1, ONE, None);
        // This models closing the eventfd: the checker fails the model if a reader may still write to the eventfd.
        let counted = eventfd.get();
        eventfd.set(0);
        let missed = reader.join().unwrap();
        assert_eq!(counted + missed, 1, "delivered once");
    });
}
