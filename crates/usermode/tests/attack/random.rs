//! Random choices that a seed repeats: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014).

use std::time::{Duration, Instant};

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator from a seed, a name and a number: different names and numbers give different choices.
    pub fn new(seed: u64, name: &str, number: u64) -> Self {
        let mut random = Self(seed);
        for part in name.bytes().map(u64::from).chain([number]) {
            random.0 ^= part;
            random.0 = random.word();
        }
        random
    }

    /// Returns any word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// Returns true once in `of` times, on average.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// Returns one of these values.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()].clone()
    }

    /// Returns another generator, for another thread.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }

    /// Returns a time up to `most`. In half of the cases short times are as likely as long ones.
    pub fn time(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap().max(2);
        if self.once_in(2) {
            return Duration::from_nanos(self.below(most));
        }
        let bits = u64::from(most.ilog2()) + 1;
        let nanoseconds = self.word() >> (63 - self.below(bits));
        Duration::from_nanos(nanoseconds.min(most))
    }
}

/// Waits for `time`: spins if it is too short for a sleep.
pub fn pause(time: Duration) {
    if time > Duration::from_micros(200) {
        return std::thread::sleep(time);
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
