use proptest::prelude::*;

use super::*;

const READ_WRITE_MMAP: u32 = 7;
const CAPS: u32 = 8;

/// An answer about region 0 with these bytes after its structure.
fn answer(flags: u32, first: u32, size: u64, behind: &[u8]) -> Vec<u8> {
    let len = u32::try_from(REGION_INFO + behind.len()).unwrap();
    let words = [len, flags, 0, first];
    let head = words.into_iter().flat_map(u32::to_ne_bytes);
    let tail = [size, 1 << 40].into_iter().flat_map(u64::to_ne_bytes);
    head.chain(tail).chain(behind.iter().copied()).collect()
}

/// A capability with the list of areas that can be mapped.
fn sparse(next: u32, count: u32, areas: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 1, 0];
    for word in [next, count, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    for (offset, size) in areas {
        bytes.extend(offset.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
    }
    bytes
}

#[test]
fn region_without_a_list_can_be_mapped_as_a_whole() {
    let region = parse(0, &answer(READ_WRITE_MMAP, 0, 0x3000, &[])).unwrap();
    assert_eq!((region.size, region.offset), (0x3000, 1 << 40));
    assert!(region.readable && region.writable);
    assert_eq!(region.areas, vec![0..0x3000; 1]);
}

#[test]
fn region_without_the_flag_cannot_be_mapped() {
    let region = parse(0, &answer(3, 0, 0x3000, &[])).unwrap();
    assert!(region.areas.is_empty());
}

#[test]
fn only_whole_pages_can_be_mapped() {
    let region = parse(0, &answer(READ_WRITE_MMAP, 0, 0x1800, &[])).unwrap();
    assert_eq!(region.areas, vec![0..0x1000; 1]);
    let region = parse(0, &answer(READ_WRITE_MMAP, 0, 0x800, &[])).unwrap();
    assert!(region.areas.is_empty());
    let list = sparse(0, 2, &[(0x10, 0x2ff0), (0x3100, 0xe00)]);
    let region = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x10000, &list)).unwrap();
    assert_eq!(region.areas, vec![0x1000..0x3000; 1]);
}

#[test]
fn list_of_areas_leaves_holes() {
    let list = sparse(0, 2, &[(0x2000, 0x1000), (0, 0x1000)]);
    let region = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x3000, &list)).unwrap();
    assert_eq!(region.areas, [0..0x1000, 0x2000..0x3000]);
}

#[test]
fn area_outside_of_the_region_or_over_another_is_refused() {
    for areas in [
        &[(0x2000, 0x2000)][..],
        &[(u64::MAX - 0xfff, 0x1000)],
        &[(0x1000, u64::MAX)],
        &[(0, 0x2000), (0x1000, 0x1000)],
    ] {
        let list = sparse(0, u32::try_from(areas.len()).unwrap(), areas);
        let error = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x3000, &list)).unwrap_err();
        assert!(matches!(error, RegionError::Area { .. }), "{error}");
    }
}

#[test]
fn list_that_is_cut_off_is_refused() {
    for count in [3, u32::MAX] {
        let list = sparse(0, count, &[(0, 0x1000)]);
        let error = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x3000, &list));
        assert_eq!(error, Err(RegionError::Areas));
    }
}

#[test]
fn chain_that_loops_is_refused() {
    // Capability 9 leads to itself, and to a capability before it.
    let own = [9, 0, 1, 0, 32, 0, 0, 0];
    let error = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x1000, &own)).unwrap_err();
    let looped = ChainError::Backwards {
        offset: 32,
        next: 32,
    };
    assert_eq!(error, RegionError::Chain(looped));
    let two = [[9, 0, 1, 0, 40, 0, 0, 0], [9, 0, 1, 0, 32, 0, 0, 0]].concat();
    let error = parse(0, &answer(READ_WRITE_MMAP | CAPS, 32, 0x1000, &two)).unwrap_err();
    assert!(matches!(
        error,
        RegionError::Chain(ChainError::Backwards { .. })
    ));
}

#[test]
fn chain_out_of_the_answer_is_refused() {
    for first in [1, 31, 33, 40, u32::MAX] {
        let error = parse(0, &answer(READ_WRITE_MMAP | CAPS, first, 0x1000, &[0; 8]));
        assert!(
            matches!(error, Err(RegionError::Chain(ChainError::Outside { .. }))),
            "{first}: {error:?}"
        );
    }
}

#[test]
fn short_and_foreign_answers_are_refused() {
    let whole = answer(READ_WRITE_MMAP, 0, 0x1000, &[]);
    for len in 0..REGION_INFO {
        let error = parse(0, &whole[..len]).unwrap_err();
        assert_eq!(error, RegionError::Short { len });
    }
    assert_eq!(parse(1, &whole), Err(RegionError::Other { index: 0 }));
}

#[test]
fn region_that_no_file_can_hold_is_refused() {
    for size in [u64::MAX, i64::MAX as u64, u64::MAX - (1 << 40) + 1] {
        let error = parse(0, &answer(READ_WRITE_MMAP, 0, size, &[])).unwrap_err();
        assert!(matches!(error, RegionError::Wraps { .. }), "{size:#x}");
    }
}

proptest! {
    #[test]
    fn no_answer_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..128), flags in 0..16_u32, first in 0..128_u32) {
        let mut bytes = bytes;
        for (at, word) in [(4, flags), (8, 0), (12, first)] {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
        if let Ok(region) = parse(0, &bytes) {
            prop_assert!(region.areas.iter().all(|area| area.start < area.end && area.end <= region.size));
            prop_assert!(region.areas.is_sorted_by(|before, area| before.end <= area.start));
        }
    }
}
