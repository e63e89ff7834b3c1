use proptest::prelude::*;

use super::*;

struct Nothing;

impl BusDevice for Nothing {
    fn read(&self, _: u64, _: &mut [u8]) {}
    fn write(&self, _: u64, _: &[u8]) {}
}

fn map(ranges: &[(u64, u64)]) -> Map {
    let mut map = Map::default();
    for &(base, len) in ranges {
        map.insert(BusRange::new(base, len).unwrap(), Arc::new(Nothing))
            .unwrap();
    }
    map
}

fn offset(map: &Map, address: u64, len: usize) -> Option<u64> {
    let fresh = map.find(&mut Guesses::new(), address, len);
    fresh.map(|(_, offset)| offset)
}

#[test]
fn empty_map_answers_nothing() {
    assert_eq!(offset(&Map::default(), 0, 1), None);
}

#[test]
fn access_is_answered_from_its_first_to_its_last_byte() {
    let map = map(&[(0x100, 8), (0x108, 8), (0x200, 1)]);
    assert_eq!(offset(&map, 0x100, 8), Some(0));
    assert_eq!(offset(&map, 0x107, 1), Some(7));
    assert_eq!(offset(&map, 0x107, 2), None, "straddles two ranges");
    assert_eq!(offset(&map, 0x200, 2), None, "straddles the end");
    assert_eq!(offset(&map, 0xff, 2), None, "straddles the start");
    assert_eq!(offset(&map, 0x110, 1), None);
    assert_eq!(offset(&map, 0, 1), None);
    assert_eq!(offset(&map, 0x100, 0), None, "nothing was accessed");
}

#[test]
fn last_address_can_be_answered_and_nothing_wraps() {
    let map = map(&[(u64::MAX - 3, 4), (0, 4)]);
    assert_eq!(offset(&map, u64::MAX, 1), Some(3));
    assert_eq!(offset(&map, u64::MAX, 2), None);
    let map = self::map(&[(0, 1), (8, 1), (u64::MAX, 1)]);
    assert_eq!(offset(&map, u64::MAX, 1), Some(0));
    assert_eq!(offset(&map, u64::MAX - 1, 1), None);
}

#[test]
fn overlap_names_both_ranges() {
    let mut map = map(&[(0x1000, 0x100), (0x2000, 0x100)]);
    for (base, len) in [(0x0, 0x1001), (0x10ff, 1), (0x1000, 0x100), (0x1080, 1)] {
        let new = BusRange::new(base, len).unwrap();
        let error = map.insert(new, Arc::new(Nothing)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&new.to_string()) && text.contains("0x1000-0x10ff"),
            "{text}"
        );
    }
    let both = BusRange::new(0x10ff, 0xf02).unwrap();
    assert!(map.insert(both, Arc::new(Nothing)).is_err());
    assert_eq!(map.ranges().count(), 2);
}

#[test]
fn empty_and_wrapping_ranges_name_themselves() {
    let empty = BusRange::new(0x10, 0).unwrap_err();
    assert_eq!(empty.to_string(), "range at 0x10 has no length");
    let wraps = BusRange::new(u64::MAX, 2).unwrap_err().to_string();
    assert!(
        wraps.contains("0xffffffffffffffff") && wraps.contains("0x2 bytes"),
        "{wraps}"
    );
}

#[test]
fn removal_wants_the_exact_range() {
    let mut map = map(&[(0x10, 0x10)]);
    let part = BusRange::new(0x10, 8).unwrap();
    assert_eq!(
        map.remove(part).err(),
        Some(BusError::NotFound { range: part })
    );
    assert!(map.remove(BusRange::new(0x10, 0x10).unwrap()).is_ok());
    assert_eq!(offset(&map, 0x10, 1), None);
}

#[test]
fn most_of_what_a_reader_found_is_guessed_right_next_time() {
    for ranges in [1, 100, 1000] {
        let mut guesses = Guesses::new();
        for unit in 0..ranges {
            guesses.set(unit as u64, unit, ranges);
        }
        let right = (0..ranges).filter(|unit| guesses.get(*unit as u64) == *unit);
        let right = right.count();
        assert!(right * 4 >= ranges * 3, "{right} of {ranges}");
    }
}

#[test]
fn no_guess_changes_what_is_found() {
    let ranges = [(0x10, 0x10), (0x30, 0x10), (0x40, 0x10), (0x80, 0x10)];
    let map = map(&ranges);
    for address in (0..0xa0).chain([u64::MAX - 1, u64::MAX]) {
        let inside = |(base, len): &&(u64, u64)| (*base..base + len).contains(&address);
        let expected = ranges.iter().find(inside).map(|(base, _)| address - base);
        for guess in 0..=ranges.len() {
            let mut guesses = Guesses::new();
            guesses.set(address >> map.granule, guess, ranges.len());
            let found = map.find(&mut guesses, address, 1);
            let found = found.map(|(_, offset)| offset);
            assert_eq!(found, expected, "{address:#x} with guess {guess}");
        }
    }
}

#[test]
fn range_of_almost_all_addresses_is_answered() {
    let map = map(&[(0, u64::MAX)]);
    assert_eq!(offset(&map, u64::MAX - 1, 1), Some(u64::MAX - 1));
    assert_eq!(offset(&map, u64::MAX, 1), None);
}

proptest! {
    #[test]
    fn search_agrees_with_a_walk(
        ranges in prop::collection::vec((0_u64..400, 1_u64..20), 0..60),
        accesses in prop::collection::vec((0_u64..440, 1_usize..9), 50),
    ) {
        let (mut map, mut walk) = (Map::default(), Vec::<(u64, u64)>::new());
        for (base, len) in ranges {
            let clash = walk.iter().any(|&(b, l)| b < base + len && base < b + l);
            let range = BusRange::new(base, len).unwrap();
            prop_assert_eq!(map.insert(range, Arc::new(Nothing)).is_err(), clash);
            if !clash {
                walk.push((base, len));
            }
        }
        let mut guesses = Guesses::new();
        for (address, len) in accesses {
            let expected = walk
                .iter()
                .find(|&&(b, l)| b <= address && address + len as u64 <= b + l)
                .map(|&(b, _)| address - b);
            prop_assert_eq!(offset(&map, address, len), expected);
            for _ in 0..2 {
                let found = map.find(&mut guesses, address, len).map(|(_, offset)| offset);
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn logarithm_of_a_length_is_rounded_down() {
    for (len, logarithm) in [(1, 0), (2, 1), (3, 1), (4, 2), (u64::MAX, 63)] {
        assert_eq!(BusRange::new(0, len).unwrap().len_log2(), logarithm);
    }
}
