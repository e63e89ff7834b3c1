//! Compares the table with a plain list, in random orders of registrations, removals and writes.

use std::{convert::Infallible, ptr};

use proptest::prelude::*;
use vmbell_core::table::{Kind, MAX_ADDRESSES, PAYLOAD};

use super::testing::Doorbells;
use super::*;

const MAX_ITEMS: u32 = 3;

#[derive(Clone, Debug)]
struct Item {
    event: u32,
    address: IoEventAddress,
    pattern: Pattern,
    sharing: Sharing,
}

impl Item {
    fn is(&self, other: &Self) -> bool {
        (self.event, self.address, self.pattern) == (other.event, other.address, other.pattern)
    }

    fn clashes(&self, other: &Self) -> bool {
        let (one, two) = (self.pattern, other.pattern);
        if self.address != other.address {
            return false;
        }
        if one.len != two.len {
            return one.len == 0 || two.len == 0;
        }
        let overlap = one.value.is_none() || two.value.is_none() || one.value == two.value;
        let grouped = self.sharing == Sharing::Group && other.sharing == Sharing::Group;
        overlap && !grouped || self.is(other)
    }

    fn hears(&self, address: IoEventAddress, len: u32, value: u64) -> bool {
        let any = self.pattern.len == 0;
        let exact = self.pattern.len == len && self.pattern.value.is_none_or(|v| v == value);
        self.address == address && (any || exact)
    }
}

/// All items, in order of registration.
#[derive(Default)]
struct Model(Vec<Item>);

impl Model {
    fn register(&mut self, item: Item) -> Result<(), i32> {
        if self.0.iter().any(|other| item.clashes(other)) {
            return Err(libc::EEXIST);
        }
        let group = |other: &&Item| {
            other.sharing == Sharing::Group
                && (other.address, other.pattern.len) == (item.address, item.pattern.len)
        };
        let grouped = self.0.iter().filter(group).count();
        if item.sharing == Sharing::Group && grouped >= MAX_ITEMS as usize {
            return Err(libc::ENOSPC);
        }
        self.0.push(item);
        Ok(())
    }

    fn unregister(&mut self, item: &Item) -> Result<u32, i32> {
        let index = self.0.iter().position(|other| other.is(item));
        index
            .map(|index| self.0.remove(index).event)
            .ok_or(libc::ENOENT)
    }

    fn ring(&self, address: IoEventAddress, len: u32, value: u64) -> Vec<u32> {
        let heard = self.0.iter().filter(|item| item.hears(address, len, value));
        let mut signals: Vec<u32> = heard.map(|item| item.event).collect();
        signals.sort_unstable();
        signals
    }
}

fn register(doorbells: &mut Doorbells<'_>, item: &Item) -> Result<(), i32> {
    let event = EventId::from_raw(u64::from(item.event));
    let signal = || Ok::<_, Infallible>(item.event);
    match doorbells.register(event, item.address, item.pattern, item.sharing, signal) {
        Ok(()) => Ok(()),
        Err(RegisterError::Doorbell(error)) => Err(error.errno()),
        Err(RegisterError::Signal(never)) => match never {},
    }
}

fn unregister(doorbells: &mut Doorbells<'_>, item: &Item) -> Result<u32, i32> {
    let event = EventId::from_raw(u64::from(item.event));
    doorbells
        .unregister(event, item.address, item.pattern)
        .map_err(|error| error.errno())
}

fn ring(table: &Table, address: IoEventAddress, len: u32, value: u64) -> Vec<u32> {
    let signals = table.lookup(address.kind(), address.value(), len, value);
    let mut signals: Vec<u32> = signals.iter().collect();
    signals.sort_unstable();
    signals
}

/// Addresses that share a bucket of the first hash table, and addresses whose value 1 shares a bucket of the second.
fn crowded(table: &Table) -> Vec<u64> {
    let first = |&a: &u64| {
        ptr::eq(
            table.first_address(Kind::Mmio, a),
            table.first_address(Kind::Mmio, 0),
        )
    };
    let second = |&a: &u64| ptr::eq(table.first_match(a, 1), table.first_match(1, 1));
    let mut crowd: Vec<u64> = (0..1 << 20).filter(first).take(7).collect();
    crowd.extend((1..1 << 20).filter(second).take(7));
    crowd
}

#[derive(Clone, Debug)]
enum Step {
    Register(usize, u32, Pattern, Sharing),
    Unregister(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let pattern = prop_oneof![
        1 => Just(Pattern { len: 0, value: None }),
        3 => Just(Pattern { len: 4, value: None }),
        1 => Just(Pattern { len: 8, value: None }),
        6 => (0_u64..3).prop_map(|value| Pattern { len: 4, value: Some(value) }),
        1 => Just(Pattern { len: 4, value: Some(1 << 32 | 1) }),
        2 => (0_u64..3).prop_map(|value| Pattern { len: 1, value: Some(value) }),
    ];
    let sharing = prop_oneof![1 => Just(Sharing::Exclusive), 2 => Just(Sharing::Group)];
    prop_oneof![
        3 => (0_usize..14, 0_u32..3, prop_oneof![Just(0), Just(PAYLOAD)], pattern, sharing)
            .prop_map(|(a, e, payload, p, s)| Step::Register(a, e | payload, p, s)),
        2 => (0_usize..1000).prop_map(Step::Unregister),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]
    #[test]
    fn table_agrees_with_a_list_walk(
        // Even the smallest table has room for this number.
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 10 } else { 120 }),
        few in prop::bool::ANY,
    ) {
        let table = Table::boxed();
        let crowd = crowded(&table);
        let crowd = if few { &crowd[..2] } else { &crowd[..] };
        let mut doorbells = Doorbells::new(&table, MAX_ITEMS);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Register(at, event, pattern, sharing) => {
                    let address = IoEventAddress::Mmio(crowd[at % crowd.len()]);
                    let item = Item { event, address, pattern, sharing };
                    prop_assert_eq!(register(&mut doorbells, &item), model.register(item));
                }
                Step::Unregister(at) if !model.0.is_empty() => {
                    let item = model.0[at % model.0.len()].clone();
                    prop_assert_eq!(unregister(&mut doorbells, &item), model.unregister(&item));
                    prop_assert_eq!(unregister(&mut doorbells, &item), Err(libc::ENOENT));
                }
                Step::Unregister(_) => {}
            }
            for &address in crowd {
                let mmio = IoEventAddress::Mmio(address);
                for (len, value) in [(1, 1), (2, 0), (3, 0), (4, 0), (4, 1), (4, 2), (4, 9), (8, 1)] {
                    prop_assert_eq!(ring(&table, mmio, len, value), model.ring(mmio, len, value));
                }
                let number = IoEventAddress::Hypercall(address);
                prop_assert!(ring(&table, number, 4, 0).is_empty());
            }
        }
        for item in model.0 {
            prop_assert!(unregister(&mut doorbells, &item).is_ok());
        }
        let empty = Doorbells::new(&table, MAX_ITEMS);
        for &address in crowd {
            prop_assert!(ring(empty.table, IoEventAddress::Mmio(address), 4, 1).is_empty());
        }
    }
}

fn wildcard(address: u64) -> Item {
    Item {
        event: 1,
        address: IoEventAddress::Mmio(address),
        pattern: Pattern {
            len: 4,
            value: None,
        },
        sharing: Sharing::Exclusive,
    }
}

#[test]
fn full_table_says_so_and_takes_the_next_when_one_has_gone() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, 32);
    let last = MAX_ADDRESSES as u64;
    for address in 0..last {
        register(&mut doorbells, &wildcard(address * 8)).unwrap();
    }
    assert_eq!(
        register(&mut doorbells, &wildcard(last * 8)),
        Err(libc::ENOSPC)
    );
    assert_eq!(unregister(&mut doorbells, &wildcard(0)), Ok(1));
    assert_eq!(register(&mut doorbells, &wildcard(last * 8)), Ok(()));
    for address in 1..=last {
        assert_eq!(ring(&table, IoEventAddress::Mmio(address * 8), 4, 0), [1]);
    }
}

#[test]
fn as_many_values_as_the_table_takes_may_be_on_one_address() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, 32);
    let item = |value| Item {
        pattern: Pattern {
            len: 8,
            value: Some(value),
        },
        ..wildcard(0)
    };
    for value in 0..MAX_ADDRESSES as u64 {
        register(&mut doorbells, &item(value << 32)).unwrap();
    }
    assert_eq!(register(&mut doorbells, &item(1)), Err(libc::ENOSPC));
    for value in 0..MAX_ADDRESSES as u64 {
        assert_eq!(ring(&table, IoEventAddress::Mmio(0), 8, value << 32), [1]);
    }
}

#[test]
fn failed_signal_leaves_nothing_behind() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, 32);
    let Item {
        address,
        pattern,
        sharing,
        ..
    } = wildcard(0);
    let event = EventId::from_raw(1);
    let result = doorbells.register(event, address, pattern, sharing, || Err("no"));
    assert!(matches!(result, Err(RegisterError::Signal("no"))));
    assert!(ring(&table, address, 4, 0).is_empty());
    assert_eq!(unregister(&mut doorbells, &wildcard(0)), Err(libc::ENOENT));
    assert_eq!(register(&mut doorbells, &wildcard(0)), Ok(()));
}

#[test]
fn signal_is_not_asked_for_when_the_rules_say_no() {
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, 32);
    register(&mut doorbells, &wildcard(0)).unwrap();
    let Item {
        address,
        pattern,
        sharing,
        ..
    } = wildcard(0);
    let signal = || -> Result<u32, Infallible> { panic!("asked") };
    let event = EventId::from_raw(2);
    assert!(
        doorbells
            .register(event, address, pattern, sharing, signal)
            .is_err()
    );
}

#[test]
fn long_group_signals_all_and_loses_any() {
    // More than two chunks.
    let count = if cfg!(miri) { 32 } else { 100 };
    let table = Table::boxed();
    let mut doorbells = Doorbells::new(&table, count);
    let item = |event| Item {
        event,
        sharing: Sharing::Group,
        ..wildcard(0)
    };
    for event in 0..count {
        register(&mut doorbells, &item(event)).unwrap();
    }
    assert_eq!(register(&mut doorbells, &item(count)), Err(libc::ENOSPC));
    let all: Vec<u32> = (0..count).collect();
    assert_eq!(ring(&table, IoEventAddress::Mmio(0), 4, 0), all);
    for event in (0..count).step_by(3) {
        assert_eq!(unregister(&mut doorbells, &item(event)), Ok(event));
    }
    let left: Vec<u32> = (0..count).filter(|event| event % 3 != 0).collect();
    assert_eq!(ring(&table, IoEventAddress::Mmio(0), 4, 0), left);
}

#[test]
fn any_bytes_are_looked_up_without_a_panic() {
    let table = Table::boxed();
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 32) as u32
    };
    let first = table.first_address(Kind::Mmio, 0);
    for _ in 0..if cfg!(miri) { 1 } else { 200 } {
        for cell in first.cells.iter().flatten() {
            cell.store(next() | 3 << 30, vmbell_core::sync::Ordering::Relaxed);
        }
        first
            .link
            .store(next(), vmbell_core::sync::Ordering::Relaxed);
        for chunk in &table.chunks {
            for word in &chunk.words {
                word.store(next(), vmbell_core::sync::Ordering::Relaxed);
            }
        }
        for len in [0, 1, 4, 7, 15, 16, 255, u32::MAX] {
            let signals = table.lookup(Kind::Mmio, 0, len, u64::from(next()));
            assert!(signals.iter().count() <= vmbell_core::table::MAX_ITEMS);
        }
    }
}
