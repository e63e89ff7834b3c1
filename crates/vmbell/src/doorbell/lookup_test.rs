//! The lookup alone, over tables that no writer has made: every width, codes with and without a list, chains and lists
//! of the greatest length, and endless chains.

use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::table::{
    CELLS, CHUNKS, CODE, GROUP, Kind, MATCH, MAX_ADDRESSES, MAX_ITEMS, MAX_SIGNAL, OVERFLOWS,
    PAYLOAD, Table, cell_index,
};

const MMIO: Kind = Kind::Mmio;
const ADDR: u64 = 0xfe00_0000;
const WORD: u32 = 4;

/// A table that has a code for 4-byte writes to one address.
fn table(code: u32) -> Box<Table> {
    let table = Table::boxed();
    let bucket = table.first_address(MMIO, ADDR);
    bucket.addresses[0].store(ADDR, Relaxed);
    bucket.cells[cell_index(WORD)][0].store(code, Relaxed);
    table
}

fn heard(table: &Table, value: u64) -> Vec<u32> {
    table.lookup(MMIO, ADDR, WORD, value).iter().collect()
}

#[test]
fn each_width_has_a_cell_and_odd_ones_share_the_last() {
    let cells = [1, 2, 4, 8].map(cell_index);
    assert_eq!(cells, [0, 1, 2, 3]);
    for len in (0..16).filter(|len| !matches!(len, 1 | 2 | 4 | 8)) {
        assert_eq!(cell_index(len), CELLS - 1, "{len}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "the table is smaller under Miri")]
fn table_has_room_for_what_it_promises() {
    assert_eq!((MAX_ADDRESSES, OVERFLOWS, CHUNKS), (16_384, 16_384, 32_768));
    assert_eq!(MAX_ITEMS, 128 * 15);
    // A code has none of the three flags, and one code is kept for "no signal".
    assert_eq!((GROUP, MATCH, PAYLOAD), (1 << 31, 1 << 30, 1 << 29));
    assert_eq!((CODE, MAX_SIGNAL), (0x1fff_ffff, 0x1fff_fffe));
}

#[test]
fn code_without_a_list_is_one_signal() {
    for signal in [0, 1, 7, MAX_SIGNAL] {
        let table = table(signal + 1);
        let signals = table.lookup(MMIO, ADDR, WORD, 0);
        assert!(!signals.is_empty());
        assert_eq!(signals.single(), Some(signal));
        assert_eq!(signals.iter().collect::<Vec<_>>(), [signal]);
    }
}

#[test]
fn payload_is_no_single_signal_and_keeps_its_flag() {
    for signal in [PAYLOAD, PAYLOAD | 7, PAYLOAD | MAX_SIGNAL] {
        let table = table(signal + 1);
        let signals = table.lookup(MMIO, ADDR, WORD, 0);
        assert!(!signals.is_empty());
        assert_eq!(signals.single(), None);
        assert_eq!(signals.iter().collect::<Vec<_>>(), [signal]);
    }
}

#[test]
fn empty_code_is_nobody() {
    let table = table(0);
    let signals = table.lookup(MMIO, ADDR, WORD, 0);
    assert!(signals.is_empty());
    assert_eq!(signals.single(), None);
    assert_eq!(signals.iter().count(), 0);
}

#[test]
fn list_is_no_single_signal_and_is_walked_without_its_holes() {
    let table = table(GROUP | 1);
    let payload = PAYLOAD | 3;
    for (chunk, word, code) in [
        (1, 15, 8),
        (1, 3, payload),
        (2, 15, MAX_SIGNAL + 1),
        (2, 1, 1),
    ] {
        table.chunks[chunk].words[word].store(code, Relaxed);
    }
    table.chunks[1].words[0].store(2, Relaxed);
    let signals = table.lookup(MMIO, ADDR, WORD, 0);
    assert!(!signals.is_empty());
    assert_eq!(signals.single(), None);
    let all = [7, payload - 1, MAX_SIGNAL, 0];
    assert_eq!(signals.iter().collect::<Vec<_>>(), all);
    assert_eq!(format!("{signals:?}"), format!("{all:?}"));
    assert_eq!(format!("{:?}", signals.iter()), "SignalsIter { .. }");
}

#[test]
fn list_that_comes_back_to_itself_ends_after_as_many_as_a_list_may_have() {
    let table = table(GROUP | 5);
    for word in &table.chunks[5].words {
        word.store(5, Relaxed);
    }
    assert_eq!(heard(&table, 0), vec![4; MAX_ITEMS]);
}

#[test]
fn chunk_index_out_of_range_stays_in_the_table() {
    let table = table(GROUP | CODE);
    let last = &table.chunks[CHUNKS - 1].words;
    last[15].store(9, Relaxed);
    assert_eq!(heard(&table, 0), [8]);
}

#[test]
fn key_at_the_end_of_the_longest_chain_is_found() {
    let table = Table::boxed();
    table.first_address(MMIO, ADDR).link.store(1, Relaxed);
    for index in 1..OVERFLOWS - 1 {
        let next = u32::try_from(index + 1).unwrap();
        table.address_overflows[index].link.store(next, Relaxed);
    }
    let last = &table.address_overflows[OVERFLOWS - 1];
    last.addresses[1].store(ADDR, Relaxed);
    last.cells[cell_index(WORD)][1].store(4, Relaxed);
    assert_eq!(heard(&table, 0), [3]);
}

#[test]
fn value_at_the_end_of_the_longest_chain_is_found() {
    let table = table(MATCH | 4);
    let cell = &table.first_address(MMIO, ADDR).cells[cell_index(WORD)][0];
    table.first_match(ADDR, 9).link.store(1, Relaxed);
    for index in 1..OVERFLOWS - 1 {
        let next = u32::try_from(index + 1).unwrap();
        table.match_overflows[index].link.store(next, Relaxed);
    }
    let last = &table.match_overflows[OVERFLOWS - 1];
    last.values[1].store(9, Relaxed);
    last.cell_offsets[1].store(table.offset(cell), Relaxed);
    last.codes[1].store(6, Relaxed);
    assert_eq!(heard(&table, 9), [5]);
    assert_eq!(heard(&table, 8), [3], "the wildcards'");
}

#[test]
fn chain_that_comes_back_to_itself_is_a_miss() {
    let table = Table::boxed();
    table.first_address(MMIO, ADDR).link.store(3, Relaxed);
    table.address_overflows[3].link.store(3, Relaxed);
    assert_eq!(heard(&table, 0), [0; 0]);
    let table = self::table(MATCH | 4);
    table.first_match(ADDR, 9).link.store(3, Relaxed);
    table.match_overflows[3].link.store(3, Relaxed);
    assert_eq!(heard(&table, 9), [3], "the wildcards'");
}

#[test]
fn link_out_of_range_stays_in_the_table() {
    let table = Table::boxed();
    table
        .first_address(MMIO, ADDR)
        .link
        .store(u32::MAX, Relaxed);
    let last = &table.address_overflows[OVERFLOWS - 1];
    last.addresses[0].store(ADDR, Relaxed);
    last.cells[cell_index(WORD)][0].store(4, Relaxed);
    assert_eq!(heard(&table, 0), [3]);
    let table = self::table(MATCH | 4);
    let cell = &table.first_address(MMIO, ADDR).cells[cell_index(WORD)][0];
    table.first_match(ADDR, 9).link.store(u32::MAX, Relaxed);
    let last = &table.match_overflows[OVERFLOWS - 1];
    last.values[0].store(9, Relaxed);
    last.cell_offsets[0].store(table.offset(cell), Relaxed);
    last.codes[0].store(6, Relaxed);
    assert_eq!(heard(&table, 9), [5]);
}

#[test]
fn value_of_another_place_is_not_ones_own() {
    let table = table(MATCH | 4);
    let bucket = table.first_match(ADDR, 9);
    let cell = &table.first_address(MMIO, ADDR).cells[cell_index(WORD)][0];
    bucket.values[0].store(9, Relaxed);
    bucket.codes[0].store(6, Relaxed);
    assert_eq!(heard(&table, 9), [3], "an unused slot");
    bucket.cell_offsets[0].store(table.offset(cell) + 4, Relaxed);
    assert_eq!(heard(&table, 9), [3], "that of another place");
    bucket.cell_offsets[0].store(table.offset(cell), Relaxed);
    assert_eq!(heard(&table, 9), [5]);
    assert_eq!(heard(&table, 8), [3]);
}

#[test]
fn value_is_looked_for_only_if_the_cell_says_that_there_are_some() {
    for (flag, signal) in [(0, 3), (MATCH, 5)] {
        let table = table(flag | 4);
        let bucket = table.first_match(ADDR, 9);
        let cell = &table.first_address(MMIO, ADDR).cells[cell_index(WORD)][0];
        bucket.values[0].store(9, Relaxed);
        bucket.cell_offsets[0].store(table.offset(cell), Relaxed);
        bucket.codes[0].store(6, Relaxed);
        assert_eq!(heard(&table, 9), [signal]);
    }
}

#[test]
fn places_of_cells_are_their_offsets() {
    let table = Table::boxed();
    let [first, second] = &table.pio[0].cells[0];
    assert_eq!(table.offset(second) - table.offset(first), 4);
    assert_eq!(
        table.offset(&table.pio[1].link) - table.offset(&table.pio[0].link),
        64
    );
    let base = std::ptr::from_ref::<Table>(&table).addr();
    let offset = std::ptr::from_ref(first).addr() - base;
    assert_eq!(table.offset(first) as usize, offset);
}

#[test]
#[cfg_attr(miri, ignore = "the table is smaller under Miri")]
fn regular_addresses_and_values_spread_over_the_buckets() {
    let table = Table::boxed();
    let spread = |bucket: &dyn Fn(u64) -> usize| {
        let buckets: std::collections::HashSet<_> = (0..1000).map(bucket).collect();
        assert!(buckets.len() > 900, "{} buckets for 1000", buckets.len());
    };
    for stride in [1, 4, 0x1000] {
        spread(&|n| std::ptr::from_ref(table.first_address(MMIO, n * stride)).addr());
        for at in [ADDR, ADDR + 0x14, 0x3f8] {
            spread(&|n| std::ptr::from_ref(table.first_match(at, n * stride)).addr());
        }
    }
}
