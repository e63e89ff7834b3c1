use std::convert::Infallible;

use super::*;
use crate::doorbell::{Datamatch, heap::HeapTable};

const MMIO: IoEventAddress = IoEventAddress::Mmio(0xfe00_0000);

/// Nobody looks anything up meanwhile.
struct Alone;

impl Barrier for Alone {
    fn wait(&self) {}
}

fn event(id: u32) -> EventId {
    EventId::from_raw(u64::from(id))
}

/// Doorbells where an event's number is its signal's.
struct Bench<'t>(Doorbells<'t>);

impl<'t> Bench<'t> {
    fn new(table: &'t Table) -> Self {
        Self(Doorbells::new(table, 32))
    }

    fn add(
        &mut self,
        id: u32,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
        sharing: Sharing,
    ) -> Result<(), DoorbellError> {
        let signal = || Ok::<_, Infallible>(id);
        self.0
            .register(event(id), address, pattern, sharing, signal)
            .map_err(|error| match error {
                RegisterError::Doorbell(error) => error,
                RegisterError::Signal(never) => match never {},
            })
    }

    fn remove(
        &mut self,
        id: u32,
        address: IoEventAddress,
        pattern: impl Into<Pattern>,
    ) -> Result<u32, DoorbellError> {
        self.0.unregister(event(id), address, pattern, &Alone)
    }

    fn ring(&self, address: IoEventAddress, len: u32, value: u64) -> Vec<u32> {
        let signals = self
            .0
            .table()
            .lookup(address.kind(), address.value(), len, value);
        let mut signals: Vec<u32> = signals.iter().collect();
        signals.sort_unstable();
        signals
    }
}

fn value(len: u32, value: u64) -> Pattern {
    let value = Some(value);
    Pattern { len, value }
}

fn wildcard(len: u32) -> Pattern {
    Pattern { len, value: None }
}

#[test]
fn wildcard_takes_any_value_of_its_length_only() {
    let table = HeapTable::new();
    let mut bench = Bench::new(&table);
    bench
        .add(7, MMIO, Datamatch::U32(None), Sharing::Exclusive)
        .unwrap();
    assert_eq!(bench.ring(MMIO, 4, 1), [7]);
    assert_eq!(bench.ring(MMIO, 4, u64::MAX), [7]);
    for len in [1, 2, 3, 8] {
        assert!(bench.ring(MMIO, len, 1).is_empty());
    }
}

#[test]
fn any_length_takes_every_width() {
    let table = HeapTable::new();
    let mut bench = Bench::new(&table);
    bench
        .add(0, MMIO, Datamatch::AnyLength, Sharing::Exclusive)
        .unwrap();
    for len in 1..=8 {
        assert_eq!(bench.ring(MMIO, len, 1), [0]);
    }
}

#[test]
fn group_signals_wildcards_and_matching_items() {
    let table = HeapTable::new();
    let mut bench = Bench::new(&table);
    bench.add(1, MMIO, wildcard(4), Sharing::Group).unwrap();
    bench.add(2, MMIO, value(4, 5), Sharing::Group).unwrap();
    bench.add(3, MMIO, value(4, 5), Sharing::Group).unwrap();
    bench.add(4, MMIO, value(4, 6), Sharing::Group).unwrap();
    bench.add(5, MMIO, wildcard(4), Sharing::Group).unwrap();
    assert_eq!(bench.ring(MMIO, 4, 5), [1, 2, 3, 5]);
    assert_eq!(bench.ring(MMIO, 4, 6), [1, 4, 5]);
    assert_eq!(bench.ring(MMIO, 4, 7), [1, 5]);
    bench.remove(1, MMIO, wildcard(4)).unwrap();
    bench.remove(5, MMIO, wildcard(4)).unwrap();
    assert_eq!(bench.ring(MMIO, 4, 5), [2, 3]);
    assert!(bench.ring(MMIO, 4, 7).is_empty());
    bench.remove(2, MMIO, value(4, 5)).unwrap();
    bench.remove(3, MMIO, value(4, 5)).unwrap();
    assert_eq!(bench.ring(MMIO, 4, 6), [4]);
    assert!(bench.ring(MMIO, 4, 5).is_empty());
}
