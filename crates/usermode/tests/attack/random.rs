//! Random choices that a seed repeats: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
//! generators", 2014).

use std::time::{Duration, Instant};

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed, a name and a number: other names and numbers give other choices.
    pub fn new(seed: u64, name: &str, number: u64) -> Self {
        let mut random = Self(seed);
        for part in name.bytes().map(u64::from).chain([number]) {
            random.0 ^= part;
            random.0 = random.word();
        }
        random
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()].clone()
    }

    /// Another generator, for another thread.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }

    /// A time up to `most`. In half of the cases short ones are as likely as long ones.
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

/// Waits that long: awake if it is too short for a sleep.
pub fn pause(time: Duration) {
    if time > Duration::from_micros(200) {
        return std::thread::sleep(time);
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
