use proptest::prelude::*;

use super::*;

const fn area(offset: u64, len: u64) -> Area {
    Area { offset, len }
}

#[test]
fn bar_that_can_be_mapped_is_mapped_as_one() {
    assert_eq!(to_map(0x4000, &[area(0, 0x4000)], &[]), [area(0, 0x4000)]);
    let halves = [area(0x2000, 0x2000), area(0, 0x2000)];
    assert_eq!(to_map(0x4000, &halves, &[]), [area(0, 0x4000)]);
    assert_eq!(to_map(0x4000, &[], &[]), []);
}

#[test]
fn pages_of_the_msix_table_are_cut_out() {
    let whole = [area(0, 0x8000)];
    for (table, mapped) in [
        (
            area(0x2000, 0x10),
            vec![area(0, 0x2000), area(0x3000, 0x5000)],
        ),
        (
            area(0x2ff0, 0x20),
            vec![area(0, 0x2000), area(0x4000, 0x4000)],
        ),
        (area(0, 0x800), vec![area(0x1000, 0x7000)]),
        (area(0x7000, 0x1000), vec![area(0, 0x7000)]),
        (area(0, 0x8000), vec![]),
    ] {
        assert_eq!(to_map(0x8000, &whole, &[table]), mapped, "{table}");
    }
}

#[test]
fn parts_of_pages_are_left_to_the_bus() {
    assert_eq!(to_map(256, &[area(0, 256)], &[]), []);
    assert_eq!(to_map(0x2000, &[area(0x800, 0x1000)], &[]), []);
    let mapped = to_map(0x4000, &[area(0x800, 0x2000)], &[]);
    assert_eq!(mapped, [area(0x1000, 0x1000)]);
}

#[test]
fn nothing_is_mapped_behind_the_bar() {
    let mapped = to_map(0x2000, &[area(0x1000, u64::MAX)], &[]);
    assert_eq!(mapped, [area(0x1000, 0x1000)]);
    assert_eq!(to_map(0x2000, &[area(u64::MAX, u64::MAX)], &[]), []);
}

proptest! {
    /// A page is mapped, once, if all of it is in areas of which each has whole pages of it, and not in the hole.
    #[test]
    fn mapped_pages_are_those_of_a_model(
        areas in prop::collection::vec((0_u64..0x9000, 0_u64..0x9000), 0..6),
        hole in prop::option::of((0_u64..0x8000, 1_u64..0x3000)),
    ) {
        let areas: Vec<_> = areas.into_iter().map(|(offset, len)| area(offset, len)).collect();
        let hole = hole.map(|(offset, len)| area(offset, len));
        let mapped = to_map(0x8000, &areas, hole.as_slice());
        for page in 0..10 {
            let (from, to) = (page * PAGE, page * PAGE + PAGE);
            let wanted = to <= 0x8000
                && areas.iter().any(|area| area.offset <= from && to <= area.offset + area.len)
                && !hole.is_some_and(|hole| hole.offset < to && from < hole.offset + hole.len);
            let times = mapped
                .iter()
                .filter(|area| area.offset <= from && to <= area.offset + area.len)
                .count();
            prop_assert_eq!(times, usize::from(wanted), "page {}", page);
        }
        for area in mapped {
            prop_assert!(area.len > 0 && area.offset % PAGE == 0 && area.len % PAGE == 0);
        }
    }
}
