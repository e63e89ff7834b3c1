//! What was counted between two readings.
//!
//! A VM that is new has counted from 0, and so has one that restarted: its counter is lower than before. What has ended is not
//! in the later reading, and has no difference.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// What a counter counted since an earlier reading of it.
pub const fn since(later: u64, earlier: u64) -> u64 {
    match later.checked_sub(earlier) {
        Some(difference) => difference,
        None => later,
    }
}

/// The same for each counter of a table.
pub fn table<K: Copy + Eq + Hash, V: Copy + Default>(
    later: &HashMap<K, V>,
    earlier: &HashMap<K, V>,
    difference: impl Fn(V, V) -> V,
) -> HashMap<K, V> {
    let each = later.iter().map(|(key, value)| {
        let before = earlier.get(key).copied().unwrap_or_default();
        (*key, difference(*value, before))
    });
    each.collect()
}

/// The same for the statistics of a VM.
pub fn statistics(
    later: &BTreeMap<&'static str, u64>,
    earlier: Option<&BTreeMap<&'static str, u64>>,
) -> BTreeMap<&'static str, u64> {
    let before = |name| earlier.and_then(|earlier| earlier.get(name).copied());
    let each = later.iter().map(|(name, value)| {
        let before = before(name).unwrap_or_default();
        (*name, since(*value, before))
    });
    each.collect()
}

#[cfg(test)]
#[path = "rates_test.rs"]
mod tests;
