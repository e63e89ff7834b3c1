//! What was counted between two readings.
//!
//! A VM that is new has counted from 0, and so has one that restarted: its counter is lower than before. What has ended is not
//! in the later reading, and has no difference.

/// What a counter counted since an earlier reading of it.
pub const fn since(later: u64, earlier: u64) -> u64 {
    match later.checked_sub(earlier) {
        Some(difference) => difference,
        None => later,
    }
}

/// The same for each counter of a table.
pub fn table<K, V: Default, T: IntoIterator<Item = (K, V)> + FromIterator<(K, V)>>(
    later: T,
    earlier: impl Fn(&K) -> Option<V>,
    difference: impl Fn(V, V) -> V,
) -> T {
    let each = later.into_iter().map(|(key, value)| {
        let before = earlier(&key).unwrap_or_default();
        (key, difference(value, before))
    });
    each.collect()
}

#[cfg(test)]
#[path = "rates_test.rs"]
mod tests;
