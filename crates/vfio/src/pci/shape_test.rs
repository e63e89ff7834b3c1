#![allow(
    clippy::single_range_in_vec_init,
    reason = "areas are ranges, and one may be left"
)]

use proptest::prelude::*;

use super::*;

#[test]
fn pages_of_the_msix_table_are_cut_out() {
    let whole = 0..0x8000;
    for (table, mapped) in [
        (0x2000..0x2010, vec![0..0x2000, 0x3000..0x8000]),
        (0x2ff0..0x3010, vec![0..0x2000, 0x4000..0x8000]),
        (0..0x800, vec![0x1000..0x8000]),
        (0x7000..0x8000, vec![0..0x7000]),
        (0..0x8000, vec![]),
    ] {
        let areas = to_map(std::slice::from_ref(&whole), std::slice::from_ref(&table));
        assert_eq!(areas, mapped, "{table:?}");
    }
}

proptest! {
    /// A page is mapped, once, if it is in an area and not in the hole.
    #[test]
    fn mapped_pages_are_those_of_a_model(
        areas in prop::collection::btree_set(0_u64..9, 0..6),
        hole in prop::option::of((0_u64..0x8000, 1_u64..0x3000)),
    ) {
        let areas: Vec<_> = areas.into_iter().map(|page| page * PAGE..page * PAGE + PAGE).collect();
        let hole = hole.map(|(offset, len)| offset..offset + len);
        let mapped = to_map(&areas, hole.as_slice());
        for page in 0..10 {
            let (from, to) = (page * PAGE, page * PAGE + PAGE);
            let holds = |area: &&Range<u64>| area.start <= from && to <= area.end;
            let wanted = areas.iter().any(|area| holds(&area))
                && !hole.as_ref().is_some_and(|hole| hole.start < to && from < hole.end);
            let times = mapped.iter().filter(holds).count();
            prop_assert_eq!(times, usize::from(wanted), "page {}", page);
        }
        for area in mapped {
            prop_assert!(!area.is_empty() && area.start % PAGE == 0 && area.end % PAGE == 0);
        }
    }
}
