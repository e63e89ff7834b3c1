use proptest::prelude::*;

use super::*;

/// An answer with page sizes of 4 KiB and more, and these bytes after its structure.
fn answer(flags: u32, first: u32, behind: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = u32::try_from(IOMMU_INFO + behind.len()).unwrap();
    bytes.extend(len.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend((!0xfff_u64).to_ne_bytes());
    bytes.extend(first.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(behind);
    bytes
}

fn ranges(next: u32, ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 1, 0];
    for word in [next, u32::try_from(ranges.len()).unwrap(), 0] {
        bytes.extend(word.to_ne_bytes());
    }
    for (first, last) in ranges {
        bytes.extend(first.to_ne_bytes());
        bytes.extend(last.to_ne_bytes());
    }
    bytes
}

/// What intel-iommu reports: all addresses except those of interrupt messages.
const X86: [(u64, u64); 2] = [(0, 0xfedf_ffff), (0xfef0_0000, 0x7f_ffff_ffff)];

#[test]
fn addresses_of_messages_are_not_mapped() {
    let iova = Iova::parse(&answer(3, 24, &ranges(0, &X86))).unwrap();
    assert_eq!(iova.page, 4096);
    assert!(iova.has(0x10_0000, 16 << 20));
    assert!(iova.has(0, 0xfee0_0000));
    assert!(!iova.has(0xfede_f000, 0x12000), "into the messages");
    assert!(!iova.has(0, 0x1_0000_0000), "over the messages");
    assert!(!iova.has(0x7f_ffff_f000, 0x2000), "over the end");
    assert!(!iova.has(0x800, 0x1000), "half a page");
    assert!(!iova.has(0x1000, 0), "nothing");
    assert!(!iova.has(u64::MAX - 0xfff, 0x2000), "wraps");
    let text = iova.to_string();
    assert_eq!(
        text,
        "0x0-0xfedfffff, 0xfef00000-0x7fffffffff in pages of 4096"
    );
}

#[test]
fn second_capability_says_how_many_entries_are_free() {
    let list = ranges(24 + 48, &X86);
    let entries = [&[3, 0, 1, 0, 0, 0, 0, 0][..], &65_535_u32.to_ne_bytes()].concat();
    let iova = Iova::parse(&answer(3, 24, &[list, entries].concat())).unwrap();
    assert_eq!(iova.free_entries, Some(65_535));
}

#[test]
fn kernel_that_says_no_ranges_maps_all() {
    let iova = Iova::parse(&answer(1, 0, &[])).unwrap();
    assert!(iova.has(0xfee0_0000, 0x1000));
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    for list in [
        &[(5, 4)][..],
        &[(0, 0xfff), (0xfff, 0x1fff)],
        &[(0x2000, 0x2fff), (0, 0xfff)],
    ] {
        let error = Iova::parse(&answer(3, 24, &ranges(0, list))).unwrap_err();
        assert!(matches!(error, IovaError::Range { .. }), "{error}");
    }
    let mut cut = ranges(0, &X86);
    cut.truncate(40);
    assert_eq!(Iova::parse(&answer(3, 24, &cut)), Err(IovaError::Ranges));
    assert_eq!(Iova::parse(&[0; 10]), Err(IovaError::Short { len: 10 }));
}

#[test]
fn chain_that_loops_is_refused() {
    let error = Iova::parse(&answer(3, 24, &ranges(24, &X86))).unwrap_err();
    assert!(matches!(
        error,
        IovaError::Chain(ChainError::Backwards { .. })
    ));
}

proptest! {
    #[test]
    fn no_answer_does_harm(bytes in prop::collection::vec(any::<u8>(), 0..160), first in 0..160_u32, address: u64, size: u64) {
        let mut bytes = bytes;
        for (at, word) in [(4, 3), (16, first)] {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&u32::to_ne_bytes(word));
            }
        }
        if let Ok(iova) = Iova::parse(&bytes) {
            let _ = iova.has(address, size);
        }
    }
}
