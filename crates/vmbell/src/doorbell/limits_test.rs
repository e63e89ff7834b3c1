//! The limits of the table, down to the last piece, and removals that free their pieces.

use std::convert::Infallible;
use std::ptr;

use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::table::{CHUNKS, Kind, MAX_ADDRESSES, MAX_MATCHES, MAX_SIGNAL, OVERFLOWS};

use super::testing::Doorbells;
use super::*;

/// How many chunks can be used; the first one is never used.
const ALL: usize = CHUNKS - 1;
/// The largest number of items of a group in these tests.
const MOST: u32 = 64;

fn wildcard(len: u32) -> Pattern {
    Pattern { len, value: None }
}

fn value(len: u32, value: u64) -> Pattern {
    let value = Some(value);
    Pattern { len, value }
}

/// Adds an item of a group; its signal number is its event's number.
fn add(doorbells: &mut Doorbells<'_>, id: u32, at: u64, pattern: Pattern) -> Result<(), String> {
    let event = EventId::from_raw(id.into());
    let address = IoEventAddress::Mmio(at);
    let signal = || Ok::<_, Infallible>(id);
    let added = doorbells.register(event, address, pattern, Sharing::Group, signal);
    added.map_err(|error| error.to_string())
}

fn remove(doorbells: &mut Doorbells<'_>, id: u32, at: u64, pattern: Pattern) {
    let event = EventId::from_raw(id.into());
    let address = IoEventAddress::Mmio(at);
    let removed = doorbells.unregister(event, address, pattern);
    assert_eq!(removed.unwrap(), id);
}

fn ring(doorbells: &Doorbells<'_>, at: u64, len: u32, value: u64) -> Vec<u32> {
    let signals = doorbells.table.lookup(Kind::Mmio, at, len, value);
    let mut signals: Vec<_> = signals.iter().collect();
    signals.sort_unstable();
    signals
}

/// Pairs of items, each with its list in one chunk, at addresses that the tests do not use.
fn pairs() -> impl Iterator<Item = (u64, u32)> {
    let widths = |n: u64| [1, 2, 4, 8].map(|len| ((1 << 40) + n * 16, len));
    (0..).flat_map(widths)
}

/// Doorbells that use all chunks, and what a case has added to them.
struct Filled<'t> {
    doorbells: Doorbells<'t>,
    added: Vec<(u32, u64, Pattern)>,
}

const FULL: &str = "the doorbell table has its 32767 chunks of signal lists already";

impl<'t> Filled<'t> {
    fn new(table: &'t Table) -> Self {
        let mut doorbells = Doorbells::new(table, MOST);
        for (at, len) in pairs().take(ALL) {
            for id in [1, 2] {
                add(&mut doorbells, id, at, wildcard(len)).unwrap();
            }
        }
        let added = Vec::new();
        Self { doorbells, added }
    }

    /// Returns whether there was room.
    fn add(&mut self, id: u32, at: u64, pattern: Pattern) -> bool {
        match add(&mut self.doorbells, id, at, pattern) {
            Ok(()) => self.added.push((id, at, pattern)),
            Err(error) => {
                assert_eq!(error, FULL);
                return false;
            }
        }
        true
    }

    /// Adds `count` wildcards of 4 bytes, from event 10 on.
    fn add_wildcards(&mut self, count: u32, at: u64) {
        assert!((10..10 + count).all(|id| self.add(id, at, wildcard(4))));
    }

    fn remove(&mut self, id: u32, at: u64, pattern: Pattern) {
        self.added.retain(|item| *item != (id, at, pattern));
        remove(&mut self.doorbells, id, at, pattern);
    }

    fn heard(&self, at: u64, value: u64) -> usize {
        ring(&self.doorbells, at, 4, value).len()
    }

    /// Runs a case with `left` free chunks, and then removes what it has added.
    fn with_left(&mut self, left: usize, case: impl FnOnce(&mut Self)) {
        for (at, len) in pairs().take(left) {
            remove(&mut self.doorbells, 1, at, wildcard(len));
        }
        case(self);
        for (id, at, pattern) in std::mem::take(&mut self.added) {
            remove(&mut self.doorbells, id, at, pattern);
        }
        for (at, len) in pairs().take(left) {
            add(&mut self.doorbells, 1, at, wildcard(len)).unwrap();
        }
    }
}

#[test]
fn lists_take_every_chunk_and_give_it_back() {
    let table = Table::boxed();
    let mut filled = Filled::new(&table);
    for left in [0, 1, 2, 0] {
        filled.with_left(left, |filled| {
            let places = (0..3).map(|n| n * 8);
            for at in places.clone() {
                assert!(filled.add(1, at, wildcard(4)), "no list yet");
            }
            let lists = places.filter(|&at| filled.add(2, at, wildcard(4))).count();
            assert_eq!(lists, left);
            assert_eq!(filled.heard(0, 0), if left > 0 { 2 } else { 1 });
        });
    }
}

#[test]
fn list_takes_fifteen_signals_before_it_needs_a_chunk() {
    let table = Table::boxed();
    Filled::new(&table).with_left(1, |filled| {
        filled.add_wildcards(15, 0);
        assert!(!filled.add(9, 0, wildcard(4)));
        filled.remove(12, 0, wildcard(4));
        assert!(filled.add(9, 0, wildcard(4)));
        assert!(!filled.add(12, 0, wildcard(4)));
        assert_eq!(filled.heard(0, 0), 15);
    });
}

#[test]
fn value_costs_a_copy_of_the_wildcards_if_there_are_any() {
    let table = Table::boxed();
    Filled::new(&table).with_left(0, |filled| {
        assert!(filled.add(1, 0, value(4, 5)));
        assert!(!filled.add(2, 0, value(4, 5)));
        assert!(filled.add(2, 0, value(4, 6)));
        assert!(!filled.add(3, 0, wildcard(4)));
        assert!(filled.add(1, 8, wildcard(4)));
        assert!(!filled.add(2, 8, value(4, 5)));
        assert_eq!((filled.heard(0, 5), filled.heard(8, 5)), (1, 1));
    });
}

#[test]
fn copy_of_fourteen_wildcards_takes_one_chunk_and_of_fifteen_two() {
    let table = Table::boxed();
    let mut filled = Filled::new(&table);
    for (wildcards, own, copy) in [(1, 0, 1), (14, 1, 1), (15, 1, 2), (29, 2, 2), (30, 2, 3)] {
        for left in [copy - 1, copy] {
            filled.with_left(own + left, |filled| {
                filled.add_wildcards(wildcards, 0);
                let added = filled.add(1, 0, value(4, 5));
                assert_eq!(added, left == copy, "{wildcards}, {left} left");
                let heard = wildcards as usize + usize::from(added);
                assert_eq!(filled.heard(0, 5), heard);
            });
        }
    }
}

#[test]
fn wildcard_costs_what_the_lists_of_all_values_cost() {
    let table = Table::boxed();
    let mut filled = Filled::new(&table);
    for left in 0..5 {
        filled.with_left(left, |filled| {
            let values = [0, 1, 2].map(|number| value(4, number));
            assert!(values.iter().all(|&value| filled.add(1, 0, value)));
            let added = filled.add(2, 0, wildcard(4));
            assert_eq!(added, left >= 3, "{left} left");
            let heard = 1 + usize::from(added);
            assert!((0..3).all(|number| filled.heard(0, number) == heard));
        });
    }
}

#[test]
fn removed_value_gives_its_list_back() {
    let table = Table::boxed();
    Filled::new(&table).with_left(1, |filled| {
        for _ in 0..3 {
            assert!(filled.add(1, 0, wildcard(4)));
            assert!(filled.add(2, 0, value(4, 5)));
            assert!(!filled.add(3, 0, value(4, 6)));
            filled.remove(2, 0, value(4, 5));
            filled.remove(1, 0, wildcard(4));
        }
    });
}

#[test]
fn full_table_takes_more_at_addresses_and_values_that_it_has() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let last = MAX_ADDRESSES as u64;
    for at in 0..last {
        add(&mut doorbells, 1, at * 8, value(4, at)).unwrap();
    }
    let addresses = add(&mut doorbells, 1, last * 8, wildcard(4)).unwrap_err();
    let expected = "the doorbell table has its 16384 addresses already";
    assert_eq!(addresses, expected);
    let values = add(&mut doorbells, 1, 0, value(4, 1)).unwrap_err();
    assert_eq!(values, "the doorbell table has its 16384 values already");
    add(&mut doorbells, 2, 0, value(4, 0)).unwrap();
    add(&mut doorbells, 2, 8, wildcard(8)).unwrap();
    assert_eq!(ring(&doorbells, 0, 4, 0), [1, 2]);
    assert_eq!(ring(&doorbells, 8, 8, 0), [2]);
}

#[test]
fn value_that_goes_makes_room_for_one() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let at = |number| number % 1024 * 8;
    for number in 0..MAX_MATCHES as u64 {
        add(&mut doorbells, 1, at(number), value(8, number)).unwrap();
    }
    for number in 0..3 {
        assert!(add(&mut doorbells, 1, 0, value(4, number)).is_err());
        remove(&mut doorbells, 1, at(number), value(8, number));
        add(&mut doorbells, 1, 0, value(4, number)).unwrap();
    }
    assert!(add(&mut doorbells, 1, 0, value(4, 3)).is_err());
}

/// Keys of one bucket. The third key needs an overflow bucket, and so does every second key after it.
fn crowd<B, const N: usize>(bucket: impl Fn(u64) -> *const B) -> [u64; N] {
    let mut same = (1_u64..).filter(|&key| bucket(key) == bucket(0));
    std::array::from_fn(|_| same.next().unwrap())
}

#[test]
fn overflow_buckets_come_back_however_often_one_is_needed() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |at| table.first_address(Kind::Mmio, at);
    let [one, two, three] = crowd(|at| ptr::from_ref(first(at)));
    for at in [one, two] {
        add(&mut doorbells, 1, at, wildcard(4)).unwrap();
    }
    for _ in 0..OVERFLOWS + 10 {
        add(&mut doorbells, 3, three, wildcard(4)).unwrap();
        assert_ne!(first(one).link.load(Relaxed), 0);
        assert_eq!(ring(&doorbells, three, 4, 0), [3]);
        remove(&mut doorbells, 3, three, wildcard(4));
        assert_eq!(first(one).link.load(Relaxed), 0);
    }
    assert_eq!(ring(&doorbells, two, 4, 0), [1]);
}

#[test]
fn overflow_buckets_of_values_come_back_however_often_one_is_needed() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |value| table.first_match(0, value);
    let [one, two, three] = crowd(|value| ptr::from_ref(first(value)));
    for number in [one, two] {
        add(&mut doorbells, 1, 0, value(8, number)).unwrap();
    }
    for _ in 0..OVERFLOWS + 10 {
        add(&mut doorbells, 3, 0, value(8, three)).unwrap();
        assert_ne!(first(one).link.load(Relaxed), 0);
        assert_eq!(ring(&doorbells, 0, 8, three), [3]);
        remove(&mut doorbells, 3, 0, value(8, three));
        assert_eq!(first(one).link.load(Relaxed), 0);
    }
    assert_eq!(ring(&doorbells, 0, 8, two), [1]);
}

#[test]
fn bucket_from_the_middle_of_a_chain_is_good_for_its_end() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |at| ptr::from_ref(table.first_address(Kind::Mmio, at));
    let keys: [u64; 10] = crowd(first);
    for &at in &keys[..8] {
        add(&mut doorbells, 1, at, wildcard(4)).unwrap();
    }
    for &at in &keys[2..4] {
        remove(&mut doorbells, 1, at, wildcard(4));
    }
    for &at in &keys[8..] {
        add(&mut doorbells, 1, at, wildcard(4)).unwrap();
    }
    for (index, &at) in keys.iter().enumerate() {
        let heard = ring(&doorbells, at, 4, 0);
        assert_eq!(
            heard.len(),
            usize::from(!(2..4).contains(&index)),
            "{index}"
        );
    }
}

#[test]
fn bucket_of_values_from_the_middle_of_a_chain_is_good_for_its_end() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |value| ptr::from_ref(table.first_match(0, value));
    let keys: [u64; 10] = crowd(first);
    for &number in &keys[..8] {
        add(&mut doorbells, 1, 0, value(8, number)).unwrap();
    }
    for &number in &keys[2..4] {
        remove(&mut doorbells, 1, 0, value(8, number));
    }
    for &number in &keys[8..] {
        add(&mut doorbells, 1, 0, value(8, number)).unwrap();
    }
    for (index, &number) in keys.iter().enumerate() {
        let heard = ring(&doorbells, 0, 8, number);
        assert_eq!(
            heard.len(),
            usize::from(!(2..4).contains(&index)),
            "{index}"
        );
    }
}

#[test]
fn slot_of_an_address_that_went_is_used_again() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |at| table.first_address(Kind::Mmio, at);
    let [one, two, three, four] = crowd(|at| ptr::from_ref(first(at)));
    add(&mut doorbells, 1, one, wildcard(4)).unwrap();
    add(&mut doorbells, 2, two, wildcard(4)).unwrap();
    for (gone, new) in [(one, three), (two, four)] {
        remove(
            &mut doorbells,
            if gone == one { 1 } else { 2 },
            gone,
            wildcard(4),
        );
        add(&mut doorbells, 3, new, wildcard(4)).unwrap();
        assert_eq!(first(one).link.load(Relaxed), 0, "there was room");
        assert_eq!(ring(&doorbells, new, 4, 0), [3]);
    }
}

#[test]
fn slot_of_a_value_that_went_is_used_again() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |value| table.first_match(0, value);
    let [one, two, three, four] = crowd(|value| ptr::from_ref(first(value)));
    add(&mut doorbells, 1, 0, value(8, one)).unwrap();
    add(&mut doorbells, 2, 0, value(8, two)).unwrap();
    for (gone, new) in [(one, three), (two, four)] {
        remove(
            &mut doorbells,
            if gone == one { 1 } else { 2 },
            0,
            value(8, gone),
        );
        add(&mut doorbells, 3, 0, value(8, new)).unwrap();
        assert_eq!(first(one).link.load(Relaxed), 0, "there was room");
        assert_eq!(ring(&doorbells, 0, 8, new), [3]);
    }
}

/// The same value at two widths makes two keys of one bucket. The first slot must not hide the second.
#[test]
fn value_of_one_width_does_not_hide_that_of_another() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let first = |value| ptr::from_ref(table.first_match(0, value));
    let [other, same] = crowd(first);
    add(&mut doorbells, 1, 0, value(8, other)).unwrap();
    add(&mut doorbells, 2, 0, value(8, same)).unwrap();
    remove(&mut doorbells, 1, 0, value(8, other));
    add(&mut doorbells, 3, 0, value(4, same)).unwrap();
    assert_eq!(ring(&doorbells, 0, 8, same), [2]);
    assert_eq!(ring(&doorbells, 0, 4, same), [3]);
}

#[test]
fn debug_output_of_a_table_is_short() {
    assert_eq!(format!("{:?}", Table::boxed()), "Table");
}

#[test]
fn signal_number_above_the_largest_is_refused_and_leaves_nothing() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, MOST);
    let error = add(&mut doorbells, MAX_SIGNAL + 1, 0, wildcard(4)).unwrap_err();
    assert_eq!(error, "signal number 536870911 is above 536870910");
    assert_eq!(ring(&doorbells, 0, 4, 0), [0; 0]);
    for id in [MAX_SIGNAL, MAX_SIGNAL - 1, 0] {
        add(&mut doorbells, id, 0, wildcard(4)).unwrap();
    }
    let heard = ring(&doorbells, 0, 4, 0);
    assert_eq!(heard, [0, MAX_SIGNAL - 1, MAX_SIGNAL]);
}
