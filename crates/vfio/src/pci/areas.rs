//! Which pages of a BAR are mapped into the guest: what the host can map, without the pages of the MSI-X table and its
//! pending bits, whose accesses have to exit. Pure functions.

use std::fmt;

const PAGE: u64 = 4096;

/// A part of a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} bytes at {:#x}", self.len, self.offset)
    }
}

/// The first byte and the one after the last.
type Span = (u64, u64);

/// The areas to map of a BAR of `size` bytes: the whole pages of `areas`, in order and apart from each other, without
/// the pages of `holes`. The areas are the device's, so they may be anything.
pub(super) fn to_map(size: u64, areas: &[Area], holes: &[Area]) -> Vec<Area> {
    let mut spans: Vec<Span> = areas.iter().map(|area| whole_pages(size, *area)).collect();
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (from, to) in spans.into_iter().filter(|(from, to)| from < to) {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    for hole in holes {
        let (hole_from, hole_to) = touched_pages(*hole);
        joined = joined
            .into_iter()
            .flat_map(|(from, to)| [(from, to.min(hole_from)), (from.max(hole_to), to)])
            .filter(|(from, to)| from < to)
            .collect();
    }
    let areas = joined.into_iter();
    areas
        .map(|(from, to)| Area {
            offset: from,
            len: to - from,
        })
        .collect()
}

/// The pages that an area contains, up to `size`.
fn whole_pages(size: u64, area: Area) -> Span {
    let end = area.offset.saturating_add(area.len).min(size);
    let from = area.offset.checked_next_multiple_of(PAGE);
    (from.unwrap_or(u64::MAX), end & !(PAGE - 1))
}

/// The pages that overlap the area.
fn touched_pages(area: Area) -> Span {
    let end = area.offset.saturating_add(area.len);
    let to = end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    (area.offset & !(PAGE - 1), to)
}

#[cfg(test)]
#[path = "areas_test.rs"]
mod tests;
