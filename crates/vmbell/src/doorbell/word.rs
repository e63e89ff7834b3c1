//! Loads and stores of the words of the [table](stub::table) by its only writer.

use stub::table::{AtomicU32, AtomicU64, Ordering};

/// A word of the table, for the only writer.
pub(super) trait Word {
    /// The integer in the word.
    type Value;

    /// Loads what this writer stored last.
    fn get(&self) -> Self::Value;

    /// Stores a value that no reader can reach yet.
    fn set(&self, value: Self::Value);

    /// Stores a value that makes earlier stores reachable for readers (release).
    fn publish(&self, value: Self::Value);
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word for $atomic {
            type Value = $value;

            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }

            fn publish(&self, value: $value) {
                self.store(value, Ordering::Release);
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Converts an index to the width that the table's words have.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the table is smaller than 2^29 pieces"
)]
pub(super) const fn link(index: usize) -> u32 {
    index as u32
}
