//! A counter that a driver polls, and the token with which the driver remembers it. If the token has too few bits, its
//! answer "nothing new" can be wrong.

use crate::explorer::Scenario;
use crate::graph::Order;
use crate::shared::Memory;

/// How many buffers a device has used, in 8 bytes of the shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Polled {
    memory: Memory,
    at: usize,
}

/// How many bits of the count a token keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The 16-bit index of a split ring.
    Index,
    /// The index and 16 bits that count its wraps.
    IndexAndWraps,
    /// The whole count.
    Count,
}

/// What a driver remembers of a count, to find out later whether the count has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    value: u64,
    width: Width,
}

impl Width {
    fn cut(self, count: u64) -> u64 {
        match self {
            Width::Index => count & 0xFFFF,
            Width::IndexAndWraps => count & 0xFFFF_FFFF,
            Width::Count => count,
        }
    }
}

impl Scenario {
    /// A polled count in the 8 bytes of the shared memory at `at`. It begins at 0.
    pub fn polled(&mut self, name: &str, at: usize) -> Polled {
        self.name(at, 8, name);
        let memory = self.memory();
        Polled { memory, at }
    }
}

impl Polled {
    /// The device uses this number of buffers at once.
    pub fn advance(&self, by: u64) {
        self.memory.update(self.at, 8, Order::Release, |count| {
            Some(count.wrapping_add(by))
        });
    }

    /// The count.
    pub fn count(&self) -> u64 {
        self.memory.load(self.at, 8, Order::Acquire)
    }

    /// Returns the token of a driver that has seen `count`.
    pub fn token(&self, count: u64, width: Width) -> Token {
        let value = width.cut(count);
        Token { value, width }
    }

    /// Returns the token's answer: whether a buffer was used since the token was made.
    pub fn poll(&self, token: Token) -> bool {
        token.is_older_than(self.count())
    }
}

impl Token {
    /// Like [`Polled::poll`], with a count that was loaded before.
    pub fn is_older_than(self, count: u64) -> bool {
        self.width.cut(count) != self.value
    }
}
