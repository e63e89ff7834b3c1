//! Paths and numbers as bytes, without a heap.

use super::sys::die;

/// A path with its final zero byte. Also holds a word of a command line, or a line.
pub struct Path {
    bytes: [u8; Self::SIZE],
    length: usize,
}

impl Path {
    const SIZE: usize = 1024;

    /// Joins the parts to a path. A path that is too long ends the loader.
    pub fn of(parts: &[&str]) -> Self {
        let mut path = Self {
            bytes: [0; Self::SIZE],
            length: 0,
        };
        parts.iter().for_each(|part| path.push(part.as_bytes()));
        path
    }

    /// Appends bytes.
    pub fn push(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        // The last byte stays zero.
        match self.bytes[..Self::SIZE - 1].get_mut(self.length..end) {
            Some(to) => to.copy_from_slice(part),
            None => die("a path is too long"),
        }
        self.length = end;
    }

    /// Returns this path with another part appended.
    pub fn join(&self, part: &str) -> Self {
        let mut path = Self::of(&[]);
        path.push(self.bytes());
        path.push(part.as_bytes());
        path
    }

    /// The bytes without the final zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The address of the bytes, the last of which is zero.
    pub fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

/// A number in decimal digits.
pub struct Digits {
    bytes: [u8; 10],
    begin: usize,
}

impl Digits {
    pub fn of(number: u32) -> Self {
        let mut digits = Self {
            bytes: [b'0'; 10],
            begin: 10,
        };
        let mut rest = number;
        loop {
            digits.begin -= 1;
            let digit = (rest % 10).to_le_bytes()[0];
            digits.bytes[digits.begin] = b'0' + digit;
            rest /= 10;
            if rest == 0 {
                return digits;
            }
        }
    }

    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[self.begin..]).unwrap_or("?")
    }
}
