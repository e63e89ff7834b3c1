//! When the VM is paused: this long after a step of its traffic. The guest prints the number of each step.
//!
//! The delays of consecutive instants cover the whole range evenly, however many there are, and the seed moves all of
//! them. An instant's delay depends only on its number and the seed, so that each shard has the same ones. What is open
//! then also depends on the instants before.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An instant of the guest's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    /// Its number in the sweep, from 0 on.
    pub number: u32,
    /// The time from the guest's step to the pause in nanoseconds.
    pub delay_ns: u64,
}

impl Instant {
    /// The instant with this number; all delays are below `range_ns`.
    pub fn new(number: u32, seed: u64, range_ns: u64) -> Self {
        // Van der Corput's sequence in base 2, moved by the seed: a fraction of 2^32.
        let fraction = u64::from(number.reverse_bits().wrapping_add(mixed(seed)));
        let delay = (u128::from(fraction) * u128::from(range_ns)) >> 32;
        Self {
            number,
            delay_ns: u64::try_from(delay).unwrap_or(range_ns),
        }
    }
}

/// The upper half of SplitMix64's first output.
fn mixed(seed: u64) -> u32 {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let [.., a, b, c, d] = (state ^ (state >> 31)).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A fixed part of a sweep's instants: part `index` of `count`, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The part's number, from 1 on.
    pub index: u32,
    /// How many parts there are.
    pub count: u32,
}

/// The maximum number of shards.
pub const MAX_SHARDS: u32 = 1000;

/// A text that names no shard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected I/N with I from 1 to N and N at most {MAX_SHARDS}, such as 1/4")]
pub struct ShardError;

impl Shard {
    /// Whether the instant with this number belongs to the part.
    pub fn has(self, number: u32) -> bool {
        number % self.count.max(1) == self.index.saturating_sub(1)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (index, count) = text.split_once('/').ok_or(ShardError)?;
        let [index, count] = [index, count].map(|text| text.parse::<u32>().map_err(|_| ShardError));
        let (index, count) = (index?, count?);
        match (1..=MAX_SHARDS).contains(&count) && (1..=count).contains(&index) {
            true => Ok(Self { index, count }),
            false => Err(ShardError),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn eight_instants_are_in_eight_different_eighths() {
        for seed in [0, 1, 77] {
            let eighth = |number| Instant::new(number, seed, 1 << 20).delay_ns >> 17;
            let mut eighths: Vec<u64> = (0..8).map(eighth).collect();
            eighths.sort_unstable();
            assert_eq!(eighths, [0, 1, 2, 3, 4, 5, 6, 7], "{seed}");
        }
    }

    #[test]
    fn a_seed_moves_the_delays() {
        let delays = |seed| [0, 1, 2].map(|number| Instant::new(number, seed, 1_000_000).delay_ns);
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn only_parts_that_exist_are_shards() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
        for text in [
            "", "1", "0/3", "4/3", "1/0", "1/1001", "a/b", "-1/2", "1/2/3",
        ] {
            assert_eq!(text.parse::<Shard>(), Err(ShardError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_instant_belongs_to_one_shard(number: u32, count in 1..=MAX_SHARDS) {
            let owners = (1..=count).filter(|index| Shard { index: *index, count }.has(number));
            prop_assert_eq!(owners.count(), 1);
        }

        #[test]
        fn a_delay_is_in_its_range(number: u32, seed: u64, range in 1..u64::MAX) {
            prop_assert!(Instant::new(number, seed, range).delay_ns < range);
        }
    }
}
