//! Words of the table as its one writer sees them.

use stub::table::{AtomicU32, AtomicU64, Ordering};

/// Stores and loads of the one writer.
pub(super) trait Word {
    /// What it holds.
    type Value;

    /// Reads what this writer stored last.
    fn get(&self) -> Self::Value;

    /// Stores what no reader can reach yet.
    fn set(&self, value: Self::Value);

    /// Stores what makes earlier stores reachable.
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

/// An index of the table as the table holds it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the table is smaller than 2^29 pieces"
)]
pub(super) const fn link(index: usize) -> u32 {
    index as u32
}
