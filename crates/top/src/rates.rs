//! What was counted between two readings.
//!
//! A new VM has counted from 0. So has a VM that restarted: its counter is lower than before. A VM that has ended is
//! not in the later reading, and has no difference.

/// Returns what a counter counted between two readings of it.
pub const fn since(later: u64, earlier: u64) -> u64 {
    match later.checked_sub(earlier) {
        Some(difference) => difference,
        None => later,
    }
}

/// Returns a count per second.
pub fn per_second(count: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far fewer events than 2^53")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// Returns what each counter of a table counted.
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
