use std::convert::Infallible;

use super::testing::Doorbells;
use super::*;
use crate::doorbell::Datamatch;

const MMIO: IoEventAddress = IoEventAddress::Mmio(0xfe00_0000);

fn event(id: u32) -> EventId {
    EventId::from_raw(u64::from(id))
}

/// Doorbells whose signal numbers are their events' numbers.
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
        self.0.unregister(event(id), address, pattern)
    }

    fn ring(&self, address: IoEventAddress, len: u32, value: u64) -> Vec<u32> {
        let signals = self
            .0
            .table
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
    let table = Table::boxed();
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
    let table = Table::boxed();
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
    let table = Table::boxed();
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

#[test]
fn error_names_the_place_and_what_it_was_to_match() {
    let table = Table::boxed();
    let mut bench = Bench::new(&table);
    for (address, pattern, name) in [
        (MMIO, value(4, 5), "mmio 0xfe000000, length 4, value 0x5"),
        (
            IoEventAddress::Pio(0x510),
            wildcard(2),
            "pio 0x510, length 2",
        ),
        (
            IoEventAddress::Pio(0x70),
            wildcard(0),
            "pio 0x70, any length",
        ),
        (
            IoEventAddress::Hypercall(7),
            wildcard(8),
            "hypercall 0x7, length 8",
        ),
    ] {
        let error = bench.remove(1, address, pattern).unwrap_err();
        let expected = format!("{name}: not registered for this eventfd");
        assert_eq!(error.to_string(), expected);
        bench.add(1, address, pattern, Sharing::Exclusive).unwrap();
        let error = bench.add(2, address, pattern, Sharing::Exclusive);
        let expected = format!("{name}: clashes with a registration that is already there");
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

#[test]
fn datamatch_says_its_length_and_its_value() {
    for (datamatch, len, value, name) in [
        (Datamatch::AnyLength, 0, None, "any length"),
        (Datamatch::U8(None), 1, None, "1 bytes, any value"),
        (Datamatch::U8(Some(5)), 1, Some(5), "1 bytes, value 0x5"),
        (
            Datamatch::U16(Some(0xffff)),
            2,
            Some(0xffff),
            "2 bytes, value 0xffff",
        ),
        (Datamatch::U32(Some(0)), 4, Some(0), "4 bytes, value 0x0"),
        (
            Datamatch::U64(Some(1 << 63)),
            8,
            Some(1 << 63),
            "8 bytes, value 0x8000000000000000",
        ),
        (Datamatch::U64(None), 8, None, "8 bytes, any value"),
    ] {
        assert_eq!(datamatch.to_string(), name);
        assert_eq!((datamatch.len(), datamatch.value()), (len, value));
        assert_eq!(Pattern::from(datamatch), Pattern { len, value });
    }
}

#[test]
fn hypercall_numbers_are_no_ranges_and_addresses_are() {
    let table = Table::boxed();
    let mut bench = Bench::new(&table);
    let last = IoEventAddress::Hypercall(u64::MAX);
    bench.add(1, last, wildcard(8), Sharing::Exclusive).unwrap();
    assert_eq!(bench.ring(last, 8, 0), [1]);
    let last = IoEventAddress::Mmio(u64::MAX);
    let error = bench.add(1, last, wildcard(8), Sharing::Exclusive);
    assert!(matches!(error, Err(DoorbellError::Wraps { len: 8, .. })));
    // KVM checks the end of a port range with 64 bits, so this does not wrap.
    let last = IoEventAddress::Pio(u16::MAX);
    bench.add(2, last, wildcard(8), Sharing::Exclusive).unwrap();
}

#[test]
fn value_of_no_length_and_odd_lengths_are_refused() {
    let table = Table::boxed();
    let mut bench = Bench::new(&table);
    let error = bench.add(1, MMIO, value(0, 5), Sharing::Exclusive);
    assert!(matches!(
        error,
        Err(DoorbellError::MatchWithoutLength { value: 5 })
    ));
    for len in [3, 5, 6, 7, 9, 16, u32::MAX] {
        let error = bench.add(1, MMIO, wildcard(len), Sharing::Exclusive);
        assert!(matches!(error, Err(DoorbellError::Length { len: l }) if l == len));
    }
}

#[test]
fn failure_to_register_becomes_the_callers_own_error() {
    #[derive(Debug)]
    enum Own {
        Rules(DoorbellError),
        Signal,
    }
    impl From<DoorbellError> for Own {
        fn from(error: DoorbellError) -> Self {
            Self::Rules(error)
        }
    }
    let rules = RegisterError::Doorbell(DoorbellError::Length { len: 3 });
    let merged: Own = rules.merge();
    assert!(matches!(merged, Own::Rules(error) if error.errno() == libc::EINVAL));
    assert!(matches!(
        RegisterError::Signal(Own::Signal).merge(),
        Own::Signal
    ));
}
